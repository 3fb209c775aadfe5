"""Requests that run together, drafts that are cut, and the end of the context."""

from __future__ import annotations

from faults.fault import Fault, fault

STEP, PROPOSE = "loop/step.py", "loop/propose.py"
SCORE = "loop/verify/score.py"
LM = "loop/draft/lm.py"
INTAKE, RUNNING = "engine/intake.py", "engine/running.py"
PIECES = "engine/test_engine.py::test_a_long_prompt_is_read_in_pieces_beside_a_short_one"
ALONE = "loop/test_conformance.py::test_a_request_gets_the_same_tokens_alone_and_in_any_batch"

FAULTS: list[Fault] = [
    fault(
        "drafts go to the wrong requests where some of them get none",
        PROPOSE,
        "for index, tree in zip(asked, trees, strict=True):",
        "for index, tree in enumerate(trees):",
        test="loop/test_batches.py::test_a_request_that_reads_its_prompt_leaves_the_drafts_to_the_others",
    ),
    fault(
        "rows of one request are read as those of another",
        SCORE,
        "        row = rows.stop\n",
        "        row += 1\n",
        test=f"{ALONE}[suffix]",
    ),
    fault(
        "a request that only reads its prompt moves the rows of those after it",
        SCORE,
        "            scored.append(None)\n",
        "            scored.append(None)\n            row += 1\n",
        test=PIECES,
    ),
    fault(
        "a draft model mixes up the guesses of requests that draft on with those that do not",
        LM,
        "paths = [tuple(drafted[index]) for index in going]",
        "paths = [tuple(drafted[index]) for index in range(len(going))]",
        test="loop/test_batches.py::"
        "test_a_model_drafter_draws_each_row_under_its_own_path_where_others_have_stopped",
    ),
    fault(
        "a draft longer than the budget is cut in its tokens, not in its laws",
        "types.py",
        "tuple(self.laws[node] for node in nodes)",
        "self.laws",
        test="loop/draft/test_constrained.py::test_what_does_not_fit_into_the_budget_is_cut_with_its_laws",
    ),
    fault(
        "forced tokens are not counted in the budget of a tree",
        "loop/draft/lm_tree.py",
        "within(shape, ask.budget - forced, deepest + 1 - forced)",
        "within(shape, ask.budget, deepest + 1)",
        test="engine/test_grammar.py::test_a_draft_model_goes_on_behind_forced_tokens",
    ),
    fault(
        "a drafter that drafts more than its budget runs past the context",
        PROPOSE,
        '        assert len(tree) <= asks[index].budget, f"{drafter.name} kept to its budget"\n',
        "",
        test="loop/test_batches.py::test_a_drafter_that_goes_beyond_its_budget_is_found_at_once",
    ),
    fault(
        "guesses that were drawn are left out for what they are, where a pass has no room for all",
        PROPOSE,
        "(proposal.tree.laws is None or sequence.rule.guarantee is Guarantee.SAME_TOKENS)",
        "True",
        test="loop/test_propose.py::"
        "test_a_draft_is_cut_to_what_pays_unless_it_was_drawn_for_a_rule_that_minds",
    ),
    fault(
        "a request whose drafts always fail is drafted for all the same",
        PROPOSE,
        "zip(ready, may, strict=True) if draft}",
        "zip(ready, may, strict=True)}",
        test="loop/test_propose.py::test_a_request_whose_drafts_fail_is_asked_ever_more_rarely",
    ),
    fault(
        "ids without a token reach the embedding: those of a prompt",
        INTAKE,
        "if not 0 <= token < vocab_size), None)",
        "if token >= vocab_size), None)",
        test="engine/test_engine.py::test_a_prompt_that_cannot_be_run_says_why",
    ),
    fault(
        "ids without a token reach the embedding: those of a draft model with a larger output layer",
        LM,
        "logits[:, : self._vocabulary]",
        "logits",
        test="loop/test_batches.py::"
        "test_a_draft_model_of_another_padding_drafts_as_if_it_had_the_target_s[coupled-8-13]",
    ),
    Fault(
        "a request drafts and emits before its prompt has been read",
        (
            (PROPOSE, " if sequence.pending <= sequence.prompt_rows]", "]"),
            (
                SCORE,
                "end = len(sequence.tokens) if tree is not None else base + sequence.prompt_rows",
                "end = min(len(sequence.tokens), base + sequence.prompt_rows)",
            ),
        ),
        PIECES,
    ),
    fault(
        "requests with one prompt share one text",
        INTAKE,
        "tokens = list(prompt)",
        "tokens = prompt",
        test="engine/test_engine.py::test_requests_without_a_seed_differ_and_say_which_seed_repeats_them",
    ),
    fault(
        "ending one request ends another with the same prompt",
        RUNNING,
        "self.requests = [other for other in self.requests if other is not request]",
        "self.requests = [o for o in self.requests if o.sequence.tokens != request.sequence.tokens]",
        test="engine/test_engine.py::test_an_aborted_request_gives_what_there_is_and_leaves_the_others_alone",
    ),
    fault(
        "one request that cannot go on ends its whole batch",
        STEP,
        "return fail(sequence, error)",
        "raise",
        test="engine/test_errors.py::test_the_others_of_the_batch_get_their_texts",
    ),
    fault(
        "a draft reaches past the context",
        PROPOSE,
        "nodes = min(planner.budget, sequence.room - 1)",
        "nodes = planner.budget",
        test="loop/test_conformance.py::"
        "test_a_prompt_close_to_the_context_limit_fills_it_exactly[random trees-3]",
    ),
    fault(
        "a text goes on past the context",
        INTAKE,
        "min(room, params.max_tokens)",
        "params.max_tokens",
        test="loop/test_batches.py::test_max_tokens_beyond_the_context_end_with_it",
    ),
    fault(
        "a draft model is run past its own context",
        LM,
        "self._model.context_limit - len(ask.state.tokens) + 1)",
        "self._model.context_limit - len(ask.state.tokens) + 2)",
        test="loop/draft/test_lm.py::test_a_draft_ends_at_the_draft_model_s_own_context_limit",
    ),
]
