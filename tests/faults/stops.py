"""Ends, stops and lengths inside an accepted run."""

from __future__ import annotations

from faults.fault import Fault, fault

STOPS = "loop/commit/stops.py"
REQUEST = "engine/request.py"
LOOP = "        for index, token in enumerate(run[:room]):\n"

FAULTS: list[Fault] = [
    fault(
        "the length is looked at before end tokens and stop texts, so what follows them leaks out",
        STOPS,
        LOOP,
        f'        if len(run) >= room:\n            return room, "length"\n{LOOP}',
        test="engine/test_engine.py::test_an_end_token_inside_a_run_cuts_it_there",
    ),
    fault(
        "an end token in the middle of a run is missed",
        STOPS,
        "ended = token in self._end_tokens",
        "ended = index + 1 == len(run) and token in self._end_tokens",
        test="engine/test_engine.py::test_an_end_token_inside_a_run_cuts_it_there",
    ),
    fault(
        "a stop text that begins in one step and ends in the next is missed",
        STOPS,
        LOOP,
        "        if self._strings:\n"
        f"            self._searched = max(self._searched, len(self._text_of(self._emitted)))\n{LOOP}",
        test="engine/test_ends.py::test_a_stop_text_is_found_wherever_it_lies_among_the_steps[3-lm]",
    ),
    Fault(
        "a stop text early in a long run is missed",
        (
            (
                STOPS,
                "completed = self._completes_string()",
                "completed = index + 1 == len(run) and self._completes_string()",
            ),
            (STOPS, "text.find(stop, self._searched)", "text.find(stop, max(0, len(text) - len(stop)))"),
        ),
        test="engine/test_ends.py::test_a_stop_text_is_found_wherever_it_lies_among_the_steps[3-lm]",
    ),
    fault(
        "of two stop texts the one that is named first counts, not the one that stands first",
        STOPS,
        "self.text_end = min(found)",
        "self.text_end = found[0]",
        test="loop/test_stops.py::test_of_two_stop_texts_that_one_token_completes_the_longer_one_is_cut_whole",
    ),
    fault(
        "the text is cut at a stop text, the token ids are not",
        REQUEST,
        "count = max(self._tokens_for(text), self.shown)",
        "count = max(count, self.shown)",
        test="engine/test_ends.py::test_a_stop_text_is_found_wherever_it_lies_among_the_steps[3-lm]",
    ),
    fault(
        "the text is cut at a stop text, the logprobs are not",
        REQUEST,
        "logprobs=self._logprobs(0, len(tokens)),",
        "logprobs=self._logprobs(0, len(sequence.tokens)),",
        test="engine/test_logprobs.py::test_stops_cut_them_with_the_tokens_and_streams_carry_them_in_pieces",
    ),
    fault(
        "the text is cut at a stop text, the counters are not",
        REQUEST,
        "steps = _cut(sequence.steps, count)",
        "steps = sequence.steps",
        test="engine/test_ends.py::test_a_stop_text_is_found_wherever_it_lies_among_the_steps[3-lm]",
    ),
    fault(
        "the beginning of a stop text is streamed before it is known to be one",
        "engine/stream.py",
        "keep = 0 if last else self._risky()",
        "keep = 0",
        test="engine/test_engine.py::test_a_stream_shows_exactly_the_text_and_never_takes_anything_back",
    ),
    fault(
        "a stop text of characters that take several tokens is missed",
        STOPS,
        'len(text.rstrip("\\ufffd")) - longest - 1',
        "len(text) - longest - 1",
        test="loop/test_stops.py::test_a_stop_string_is_found_although_its_unfinished_bytes_looked_longer",
    ),
    fault(
        "a whole draft is charged against max_tokens, so the text is shorter than asked for",
        "loop/commit/commit.py",
        "sequence.stops.cut(run, sequence.room)",
        "sequence.stops.cut(run, max(sequence.room - len(tree) + len(verdict.path), 1))",
        test="engine/test_engine.py::test_the_length_asked_for_is_exact_whatever_is_drafted",
    ),
    Fault(
        "a draft reaches past max_tokens, and what it brings is not cut",
        (
            ("loop/propose.py", "nodes = min(planner.budget, sequence.room - 1)", "nodes = planner.budget"),
            (STOPS, "enumerate(run[:room])", "enumerate(run)"),
            (STOPS, 'return room, "length"', 'return len(run), "length"'),
        ),
        "engine/test_engine.py::test_the_length_asked_for_is_exact_whatever_is_drafted",
    ),
    fault(
        "end tokens are drawn before min_tokens inside a run, whose own tokens are not counted",
        "sampling/processing.py",
        "return len(self._tokens) - self._prompt_length + len(path)",
        "return len(self._tokens) - self._prompt_length",
        test="engine/test_options.py::test_end_tokens_wait_for_min_tokens_also_inside_an_accepted_run",
    ),
    fault(
        "a stop text counts before min_tokens",
        STOPS,
        "        if self._count < self._min_tokens:\n            return False\n",
        "",
        test="engine/test_options.py::test_a_stop_string_counts_only_where_it_begins_after_min_tokens",
    ),
    fault(
        "stop tokens of the request are forgotten where the model's own ends are ignored",
        "engine/intake.py",
        "frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else tokenizer.eos_ids)",
        "frozenset() if params.ignore_eos else frozenset(params.stop_token_ids) | tokenizer.eos_ids",
        test="engine/test_ends.py::test_stop_tokens_of_the_request_end_it_with_and_without_the_model_s_own",
    ),
    fault(
        "a text that a grammar completes inside a run goes on to the run's end",
        STOPS,
        "self._is_over(run[: index + 1])",
        "self._is_over(run)",
        test="engine/test_grammar.py::test_a_text_that_nothing_may_follow_ends_with_its_last_token",
    ),
    fault(
        "randomness follows the number of draws made, so drafts that were dropped move what comes next",
        "sampling/keyed.py",
        "        return race(law, key(self._seed, self._request, self._base + depth, Purpose.TOKEN))",
        "        SharedDraws.drawn = getattr(SharedDraws, 'drawn', 0) + 1\n"
        "        return race(law, key(self._seed, self._request, SharedDraws.drawn, Purpose.TOKEN))",
        test="loop/test_conformance.py::"
        "test_a_rule_of_same_tokens_emits_what_plain_decoding_emits[random trees-coupled-sampled]",
    ),
    fault(
        "all tokens of a run are drawn with the randomness of its first",
        "sampling/keyed.py",
        "        return race(law, key(self._seed, self._request, self._base + depth, Purpose.TOKEN))",
        "        return race(law, key(self._seed, self._request, self._base, Purpose.TOKEN))",
        test="loop/test_conformance.py::"
        "test_a_rule_of_same_tokens_emits_what_plain_decoding_emits[random trees-coupled-sampled]",
    ),
    fault(
        "the cache keeps what was drafted behind a stop",
        "loop/commit/commit.py",
        "for node in verdict.path[: count - 1]]",
        "for node in verdict.path]",
        test="loop/test_commit.py::test_the_cache_holds_all_tokens_but_the_last_wherever_a_stop_cuts_the_run",
    ),
]
