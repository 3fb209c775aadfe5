"""Weights, vocabularies, what was asked for, and what is counted."""

from __future__ import annotations

from faults.fault import Fault, fault

SOURCE = "models/source.py"
COMPARE = "models/compare.py"
AGREE = "models/test_load.py::test_tensors_and_configuration_must_agree"

FAULTS: list[Fault] = [
    fault(
        "a missing tensor is left as it is",
        SOURCE,
        "if missing := sorted(set(expected) - found):",
        "if missing := []:",
        test=AGREE,
    ),
    fault(
        "a tensor that nothing reads is passed over in silence",
        SOURCE,
        "if unknown := sorted(found - set(expected) - harmless):",
        "if unknown := []:",
        test=AGREE,
    ),
    fault(
        "transformers fills a missing tensor in at random",
        "models/hf.py",
        'for problem in ("missing_keys", "mismatched_keys", "unexpected_keys"):',
        'for problem in ("mismatched_keys",):',
        test="models/test_hf.py::test_weights_that_transformers_would_fill_in_at_random_are_an_error",
    ),
    fault(
        "a draft model of other tokens is taken in silence",
        "drafters.py",
        "    check_same_vocabulary(\n"
        "        target.tokenizer, model.tokenizer, target.target.vocab_size, model.target.vocab_size\n"
        "    )\n",
        "",
        test="test_llm.py::test_a_draft_model_is_used_and_one_of_other_tokens_is_refused",
    ),
    fault(
        "a draft model whose tokens are in another order is taken for one of the same",
        COMPARE,
        "if own == other or (",
        "if own in theirs.values() or (",
        test="models/test_compare.py::test_the_same_tokens_in_another_order_are_a_difference",
    ),
    fault(
        "a draft model whose output layer is padded otherwise is refused",
        COMPARE,
        "if largest >= min(target_vocab, draft_vocab):",
        "if target_vocab != draft_vocab:",
        test="models/test_compare.py::test_equal_vocabularies_pass_whatever_the_padding_of_the_models",
    ),
    fault(
        "logits of a draft model with a smaller output layer are shifted against the target's",
        "loop/draft/lm.py",
        'F.pad(logits, (0, missing), value=float("-inf"))',
        'F.pad(logits, (missing, 0), value=float("-inf"))',
        test="loop/test_batches.py::"
        "test_a_draft_model_of_another_padding_drafts_as_if_it_had_the_target_s[coupled-13-8]",
    ),
    fault(
        "the drafter of the command line is not the one that runs",
        "cli/generate.py",
        "            drafter=drafter,\n            drafter_options",
        '            drafter="none",\n            drafter_options',
        test="cli/test_generate.py::test_drafters_do_not_change_the_tokens",
    ),
    fault(
        "a drafter was asked for and nothing is drafted",
        "llm.py",
        "            budget=self.budget,\n            latency=self._curve,",
        "            budget=0,\n            latency=self._curve,",
        test="test_llm.py::test_another_drafter_rule_or_budget_shares_the_target_and_is_used",
    ),
    fault(
        "the rule that was asked for is not the one that runs",
        "llm.py",
        "            rule=self._choice.name,",
        '            rule="auto",',
        test="test_llm.py::test_another_drafter_rule_or_budget_shares_the_target_and_is_used",
    ),
    fault(
        "the mean accepted length leaves the bonus token out",
        "engine/result.py",
        "return self.tokens / self.passes if self.passes else 0.0",
        "return self.accepted / self.passes if self.passes else 0.0",
        test="engine/test_engine.py::test_counters_add_up",
    ),
    fault(
        "a correction is counted as an accepted guess",
        "loop/commit/commit.py",
        "min(count, len(verdict.path)), finish_reason)",
        "count, finish_reason)",
        test="engine/test_ends.py::test_origins_and_counters_tell_a_correction_from_a_bonus",
    ),
]
