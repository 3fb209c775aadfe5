"""Laws, options and randomness."""

from __future__ import annotations

from faults.fault import Fault, fault

LM = "loop/draft/lm.py"
SCORE = "loop/verify/score.py"
LAW = "sampling/law.py"
PROCESSING = "sampling/processing.py"
KEYED = "sampling/keyed.py"
ENUMERATED = "loop/test_options.py::test_the_law_of_a_text_is_that_of_the_slow_reference_over_all_outcomes"
REFERENCE = "loop/test_options.py::test_a_rule_of_same_tokens_emits_what_the_slow_reference_emits"
PROOF = "loop/accept/test_proof.py::test_every_rule_keeps_its_guarantee_exactly"
OWN_LAWS = "loop/draft/test_lm_tree.py::test_a_fixed_shape_is_drafted_as_it_is_with_the_law_of_every_node"
CARRIED = "laws[index].append(law if ask.wants_laws else None)"

FAULTS: list[Fault] = [
    fault(
        "a guess is drawn under the options but carries the draft model's raw law",
        LM,
        CARRIED,
        "laws[index].append(found._logits[0].softmax(-1) if ask.wants_laws else None)",
        test=f"{ENUMERATED}[rejection-lm-top-k-2]",
    ),
    fault(
        "the law that a guess carries is of a lower precision than the one it was drawn from",
        LM,
        CARRIED,
        "laws[index].append(law.bfloat16().float() if ask.wants_laws else None)",
        test=f"{ENUMERATED}[rejection-lm-sampled-3]",
    ),
    fault(
        "the most likely guess is taken but counted as drawn from the softmax",
        LM,
        "tokens[index].append(ask.draws.token(law, depth))",
        "tokens[index].append(int(law.argmax()))",
        test=f"{ENUMERATED}[rejection-lm-sampled-3]",
    ),
    fault(
        "nodes of a tree carry another law than they were drawn from",
        "loop/draft/lm_tree.py",
        "kept = law if ask.wants_laws else None",
        "kept = law.sqrt() / law.sqrt().sum() if ask.wants_laws else None",
        test=OWN_LAWS,
    ),
    fault(
        "a draft model draws without the request's options, so that its guesses are turned down",
        LM,
        "LogitLaws(logits[i : i + 1], ask.params, ask.processing, lambda",
        "LogitLaws(logits[i : i + 1], ask.params, None, lambda",
        test="loop/test_options.py::"
        "test_a_draft_model_equal_to_the_target_is_always_right_under_every_option[auto-frequency penalty]",
    ),
    fault(
        "drafter and rule share randomness under a rule that needs them independent",
        KEYED,
        "return StepDraws(self._seed, self._request, base, Purpose.DRAFT)",
        "return StepDraws(self._seed, self._request, base, Purpose.RESIDUAL)",
        test="sampling/test_keyed.py::test_no_two_steps_purposes_depths_or_requests_share_a_draw",
    ),
    fault(
        "a rejected guess is replaced from the target's law without it, not from (p - q)+",
        "loop/accept/arithmetic.py",
        "left = without(p, token) if q is None else positive_part(p, q)",
        "left = without(p, token)",
        test=f"{PROOF}[rejection]",
    ),
    fault(
        "the same on trees, sibling after sibling",
        "loop/accept/remaining.py",
        "left = positive_part(p, self._q, self._scale)",
        "left = without(p, *self._gone)",
        test=f"{PROOF}[recursive]",
    ),
    fault(
        "a rejected guess is replaced from the target's whole law",
        "loop/accept/arithmetic.py",
        "return left if has_mass(left) else p",
        "return p",
        test=f"{PROOF}[rejection]",
    ),
    fault(
        "uniform numbers lie on a coarse grid",
        "sampling/noise.py",
        ">> 11) * 2.0**-53",
        ">> 40) * 2.0**-24",
        test="sampling/test_noise.py::test_uniform_numbers_are_uniform_and_fill_a_grid_of_53_bits",
    ),
    fault(
        "exponential noise is made of float32 uniform numbers, which reach 1",
        "sampling/noise.py",
        "_odd(key, ids, device).to(torch.float64).mul_(2.0**-53).log_()",
        "_odd(key, ids, device).to(torch.float32).mul_(2.0**-53).to(torch.float64).log_()",
        test="sampling/test_noise.py::test_the_rarest_draws_are_positive_and_finite_too",
    ),
    fault(
        "temperature 0 is taken for a very small one, so that equals share the mass",
        LAW,
        "    if params.temperature == 0:\n        return _point_mass(row, most_likely(row[None])[0])\n",
        "",
        test="sampling/test_law.py::"
        "test_the_law_of_temperature_zero_is_a_point_mass_on_the_lowest_of_equal_ids",
    ),
    Fault(
        "a very small temperature is taken for 0",
        (
            (LAW, "if params.temperature > 0 and not params.has_filters:", "if params.temperature >= 1e-3:"),
            (
                LAW,
                "    if params.temperature == 0:\n        return _point_mass(row,",
                "    if params.temperature < 1e-3:\n        return _point_mass(row,",
            ),
        ),
        test="sampling/test_law.py::test_a_very_small_temperature_is_not_temperature_zero",
    ),
    fault(
        "options that look at the text see the committed text only, at every position of a draft",
        SCORE,
        "path = partial(path_to, tree)",
        "path = lambda row: ()",
        test=f"{REFERENCE}[random trees-frequency penalty]",
    ),
    fault(
        "they see all nodes drafted before, those of other branches too",
        SCORE,
        "node = tree.parents[node]",
        "node -= 1",
        test=f"{REFERENCE}[random trees-own function]",
    ),
    fault(
        "penalties are worked out once and used for the whole draft",
        LAW,
        "self._processed[row] = self._processing.row(self._logits[row], self._path(row))",
        "self._processed[row] = self._logits[row] + self._processing.row(self._logits[0], ())"
        " - self._logits[0]",
        test=f"{REFERENCE}[random trees-frequency penalty]",
    ),
    fault(
        "presence and frequency penalties count the prompt",
        PROCESSING,
        "self._output = Tally(tokens, prompt_length)",
        "self._output = Tally(tokens)",
        test=f"{REFERENCE}[random trees-presence penalty]",
    ),
    fault(
        "a logit bias is ignored",
        PROCESSING,
        "processors.add_bias(row, self._bias_ids.to(row.device), self._bias.to(row.device))",
        "pass",
        test=f"{REFERENCE}[random trees-logit bias]",
    ),
    fault(
        "min_p is ignored",
        "sampling/filters.py",
        "if params.min_p > 0:",
        "if False:",
        test="sampling/test_processing.py::test_min_p_top_k_and_top_p_are_those_of_transformers",
    ),
    fault(
        "top_k is ignored where speculation is on",
        SCORE,
        "laws = LogitLaws(logits[rows], sequence.params,",
        "from dataclasses import replace\n"
        "        asked = replace(sequence.params, top_k=0) if len(tree) else sequence.params\n"
        "        laws = LogitLaws(logits[rows], asked,",
        test="loop/test_conformance.py::"
        "test_a_rule_of_same_tokens_emits_what_plain_decoding_emits[suffix-coupled-top-k]",
    ),
    fault(
        "guesses that were turned down stay in the counts of penalties",
        "sampling/history.py",
        "counts = self._counts[:size].copy()",
        "counts = self._counts[:size]",
        test=f"{REFERENCE}[random trees-frequency penalty]",
    ),
    fault(
        "guesses that were turned down stay in the record of repeated runs",
        "sampling/history.py",
        "found = set(self._followers.get(last, ()))",
        "found = self._followers.setdefault(last, set())",
        test=f"{REFERENCE}[lm-no repeated pairs]",
    ),
    fault(
        "guesses that were turned down move the grammar of the committed text",
        "sampling/grammar.py",
        "self._scout, self._at = matcher.deep_copy(), list[int]()",
        "self._scout, self._at = matcher, list[int]()",
        test=f"{REFERENCE}[random trees-regex]",
    ),
    fault(
        "options change the model's own logits, so that raw logprobs are no longer raw",
        PROCESSING,
        "row = logits.to(torch.float32, copy=True)",
        "row = logits.to(torch.float32)",
        test="engine/test_logprobs.py::"
        "test_they_are_those_of_the_slow_reference_and_equal_to_those_of_plain_decoding",
    ),
    fault(
        "a token of probability zero passes when the lowest number is drawn",
        KEYED,
        "self._seed, self._request, self._base, self._purpose = seed, request, base, purpose\n\n"
        "    def accepts(self, probability: Number, node: int) -> bool:\n"
        '        """Decide whether draft node `node` of this step passes: u < probability."""\n'
        "        return uniform(key(self._seed, self._request, self._base, Purpose.ACCEPT, node)) <",
        "self._seed, self._request, self._base, self._purpose = seed, request, base, purpose\n\n"
        "    def accepts(self, probability: Number, node: int) -> bool:\n"
        "        return uniform(key(self._seed, self._request, self._base, Purpose.ACCEPT, node)) * 0 <=",
        test="sampling/test_keyed.py::test_a_probability_of_zero_never_passes_and_of_one_always",
    ),
    fault(
        "what runs beside a request changes its draws",
        "engine/intake.py",
        "draws=KeyedSource(seed, sample or 0) if draws is None else draws",
        "draws=KeyedSource(seed, number) if draws is None else draws",
        test="loop/test_conformance.py::test_a_request_gets_the_same_tokens_alone_and_in_any_batch[suffix]",
    ),
    fault(
        "requests without a seed are all alike",
        "engine/intake.py",
        "seed = secrets.randbits(64) if params.seed is None else params.seed",
        "seed = params.seed or 0",
        test="engine/test_engine.py::test_requests_without_a_seed_differ_and_say_which_seed_repeats_them",
    ),
    fault(
        "samples of one prompt are all alike",
        "engine/intake.py",
        "draws=KeyedSource(seed, sample or 0) if draws is None else draws",
        "draws=KeyedSource(seed, 0) if draws is None else draws",
        test="engine/test_samples.py::test_sample_i_is_the_same_whatever_n_is_and_whatever_is_drafted",
    ),
    fault(
        "every request of a batch is sampled under the options of the first",
        SCORE,
        "laws = LogitLaws(logits[rows], sequence.params,",
        "laws = LogitLaws(logits[rows], sequences[0].params,",
        test="loop/test_batches.py::test_every_request_of_a_batch_keeps_its_own_options[suffix-1]",
    ),
    fault(
        "what a rule works out for one row overwrites another",
        "loop/accept/arithmetic.py",
        "left = law.clone()\n",
        "left = law\n",
        test="loop/accept/test_arithmetic.py::test_arguments_are_left_as_they_were",
    ),
]
