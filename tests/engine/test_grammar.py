"""Grammars through the engine: what is asked for is what comes out, and what cannot be is said at once."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import llguidance
import pytest

from conftest import VOCAB, RandomTrees, run, toy_model
from matrix import ALL_DRAFTERS, make_drafter
from outrider.engine.engine import Engine
from outrider.engine.grammar import Grammars
from outrider.engine.result import Result
from outrider.engine.samples import gather, submit_samples
from outrider.errors import CapabilityError, DeadEndError, OptionError
from outrider.models.base import LoadedModel
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.registry import RULES
from outrider.sampling.constraint import Constraint
from outrider.sampling.grammar import GrammarConstraint
from outrider.sampling.params import SamplingParams
from outrider.types import DraftTree
from reference import settings

PROMPTS = [[0, 1, 2, 0, 1, 2], [3], [7, 6, 5, 4, 3, 2, 1, 0]]
FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "regex": ({"regex": "(ab*c|de{2,3}f)+g"}, "(ab*c|de{2,3}f)+g"),
    "choice": ({"choice": ("abcabc", "abd", "fgh")}, "abcabc|abd|fgh"),
    "grammar": ({"grammar": 'start: "a" start "b" | "cde"'}, "(a*)cde(b*)"),
    "gbnf": ({"grammar": 'root ::= ("ab" | "cd") root | "h"'}, "(ab|cd)*h"),
}


def model(seed: int = 1, eos: Sequence[int] = ()) -> LoadedModel:
    return toy_model(ToyTarget(VOCAB, seed=seed, zeros=0.0), eos)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
def test_every_output_is_of_its_grammar(drafter: str, form: str) -> None:
    options, pattern = FORMS[form]
    toy = model()
    rules = [name for name in RULES if name != "greedy"]
    ended = 0
    for rule in rules:
        for seed in range(2):
            params = settings(temperature=1.0, seed=seed, max_tokens=30, **options)
            made = make_drafter(drafter, toy.target)  # type: ignore[arg-type]
            for result in run(toy, made, PROMPTS, params, rule=rule, lossy=True, budget=6):
                if result.finish_reason == "stop":
                    ended += 1
                    assert re.fullmatch(pattern, result.text)
                else:
                    assert result.completion_tokens == 30
    assert ended > len(rules)


def test_forced_tokens_are_drafted_without_a_drafters_help_and_all_kept() -> None:
    class Silent(RandomTrees):
        def propose(self, asks: Sequence[Any]) -> list[Any]:
            return [DraftTree() for _ in asks]

    toy = model()
    [result] = run(toy, Silent(), [[0, 1]], settings(regex="abc(d|e)fga*h"))
    assert result.text.startswith("abc")
    assert result.speculation.drafted == result.speculation.accepted == 3 + 2
    [plain] = run(toy, make_drafter("none", toy.target), [[0, 1]], settings(regex="abc(d|e)fga*h"))  # type: ignore[arg-type]
    assert plain.token_ids == result.token_ids
    assert plain.speculation.drafted == 0
    assert plain.speculation.passes > result.speculation.passes


@pytest.mark.parametrize("drafter", ["lm", "lm, tree 3,2,1"])
@pytest.mark.parametrize("rule", ["coupled", "recursive", "traversal"])
def test_a_draft_model_goes_on_behind_forced_tokens(rule: str, drafter: str) -> None:
    toy = model()
    made = make_drafter(drafter, toy.target)  # type: ignore[arg-type]
    engine = Engine(toy, made, drafter_name=drafter, rule=rule, budget=9)
    request = engine.submit([0, 1], settings(temperature=1.0, regex="abc[a-h]{9}"))
    engine.step()
    [first] = request.sequence.steps
    assert first.reached > 3
    assert first.committed.kept >= 3
    assert first.committed.tokens[:3] == (0, 1, 2)


def test_no_drafted_token_is_one_that_the_grammar_refuses() -> None:
    toy, pattern = model(), "(ab|ba|c[abd])+"
    params = settings(temperature=1.0, regex=pattern, max_tokens=60)
    free = run(toy, RandomTrees(5), PROMPTS, replace(params, regex=None))
    bound = run(toy, RandomTrees(5), PROMPTS, params)
    assert all(re.fullmatch(f"{pattern}[abc]?", result.text) for result in bound)
    drafted = [sum(r.speculation.drafted for r in results) for results in (bound, free)]
    assert 0 < drafted[0] < drafted[1] / 2


@pytest.mark.parametrize("drafter", ALL_DRAFTERS)
def test_samples_batches_stops_and_logprobs_go_with_a_grammar(drafter: str) -> None:
    toy = model(eos=(3,))
    params = settings(
        temperature=1.0, regex="(ab*c|fg)+", n=3, stop="bc", min_tokens=2, logprobs=2, max_tokens=20
    )

    def results(name: str) -> list[Result]:
        made = make_drafter(name, toy.target)  # type: ignore[arg-type]
        engine = Engine(toy, made, drafter_name=name)
        requests = [submit_samples(engine, prompt, params) for prompt in PROMPTS]
        while engine.busy:
            engine.step()
        return [sample for one in requests for sample in gather(one, params).samples]

    found, plain = results(drafter), results("none")
    assert [r.token_ids for r in found] == [r.token_ids for r in plain]
    assert [r.logprobs for r in found] == [r.logprobs for r in plain]
    assert [r.finish_reason for r in found] == [r.finish_reason for r in plain]
    assert len({r.token_ids for r in found}) > 3
    for result in found:
        assert result.completion_tokens >= 2
        assert re.match("(ab*c|fg)*(ab*)?", result.text)
        assert "bc" not in result.text[2:]


def test_raw_logprobs_are_the_models_and_processed_ones_the_grammars() -> None:
    toy = model()
    for processed in (True, False):
        params = settings(regex="ab", logprobs=8, logprobs_of="processed" if processed else "raw")
        [result] = run(toy, RandomTrees(1), [[0, 1]], replace(params, temperature=1.0))
        assert result.logprobs is not None
        for entry in result.logprobs:
            assert (len(entry.top) == 1) == processed
            assert (entry.logprob == 0) == processed


def test_a_text_that_nothing_may_follow_ends_with_its_last_token() -> None:
    for eos in ((), (3,)):
        [result] = run(model(eos=eos), RandomTrees(2), [[0, 1]], settings(choice=("abc", "cab")))
        assert result.text in ("abc", "cab")
        assert result.completion_tokens == 3
        assert result.finish_reason == "stop"


def test_an_end_token_stands_only_where_the_grammar_may_end() -> None:
    toy = model(eos=(3,))
    for seed in range(12):
        params = settings(temperature=1.3, seed=seed, regex="(abc)+", stop_token_ids=(7,), max_tokens=12)
        [result] = run(toy, RandomTrees(seed), [[0, 1]], params)
        ends = [index for index, token in enumerate(result.token_ids) if token in (3, 7)]
        assert ends in ([], [result.completion_tokens - 1])
        assert not ends or ends[0] % 3 == 0
        assert result.finish_reason == ("stop" if ends else "length")


def test_a_grammar_that_is_complete_before_min_tokens_is_an_error_that_names_both() -> None:
    with pytest.raises(DeadEndError, match=r"after 3 tokens .* min_tokens, choice exclude all of them"):
        run(model(eos=(3,)), RandomTrees(1), [[0]], settings(choice="abc", min_tokens=5))


def test_a_grammar_that_runs_dry_is_an_error_that_names_it() -> None:
    with pytest.raises(DeadEndError, match="regex exclude all of them"):
        run(model(), RandomTrees(1), [[0]], settings(regex="aax"))


def test_a_grammar_that_grows_too_complex_ends_its_own_request_only() -> None:
    """The matcher fails while a text is drafted, verified or committed; its neighbours do not notice."""
    toy = model()
    tokens = Grammars(toy.tokenizer, VOCAB)._tokens
    limits = llguidance.LLParserLimits(max_items_in_row=18)
    ambiguous = 'start: s\ns: s s | "a" | "b" s "c" | s "d" s'
    params = settings(temperature=1.0, max_tokens=60)
    [alone] = run(toy, RandomTrees(3), [[4, 5]], params)
    for seed in range(4):
        matcher = llguidance.LLMatcher(tokens, ambiguous, log_level=0, limits=limits)
        constraint = GrammarConstraint(matcher, VOCAB, own_end=tokens.eos_token)
        engine = Engine(toy, RandomTrees(seed), drafter_name="random")
        bound = engine.submit([1, 2], replace(params, seed=seed), constraint=constraint)
        free = engine.submit([4, 5], params)
        while engine.busy:
            engine.step()
        with pytest.raises(OptionError, match="the grammar is too complex to go on with"):
            gather([bound], params)
        assert bound.result is not None
        assert bound.result.completion_tokens > 1
        assert free.result is not None
        assert free.result.token_ids == alone.token_ids


class Free(Constraint):
    def commit(self, tokens: Sequence[int]) -> None:
        """Remember nothing."""

    def mask(self, path: Sequence[int], vocab_size: int) -> None:
        return None


def test_what_cannot_be_run_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = model()
    engine = Engine(toy, RandomTrees(1), drafter_name="random")
    with pytest.raises(OptionError, match="regex does not compile: unclosed group; mend it"):
        engine.submit([1], SamplingParams(regex="(a"))
    with pytest.raises(OptionError, match="regex and a constraint cannot be given together"):
        engine.submit([1], SamplingParams(regex="a"), constraint=Free())
    monkeypatch.setattr(ToyTokenizer, "description", lambda _: None)
    other = Engine(model(), RandomTrees(1), drafter_name="random")
    with pytest.raises(CapabilityError, match="does not tell the bytes of its tokens"):
        other.submit([1], SamplingParams(regex="a"))
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(OptionError, match=r'choice needs llguidance: pip install "llguidance'):
        engine.submit([1], SamplingParams(choice="a"))
    assert not engine.busy


def test_a_constraint_of_two_methods_is_enough() -> None:
    toy, drafter = model(), RandomTrees(1)
    engine = Engine(toy, drafter, drafter_name="random")
    bound = engine.submit([1, 2], settings(temperature=1.0), constraint=Free())
    while engine.busy:
        engine.step()
    [free] = run(toy, RandomTrees(1), [[1, 2]], settings(temperature=1.0))
    assert bound.result is not None
    assert bound.result.token_ids == free.token_ids


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"json_schema": "{"}, "json_schema is no JSON"),
        ({"json_schema": "[1]"}, "json_schema='.1.' is not allowed; give a JSON schema"),
        ({"json_schema": {"type": {1, 2}}}, "json_schema is no JSON"),
        ({"json_object": "yes"}, "json_object='yes' is not allowed; give True or False"),
        ({"regex": ""}, "regex='' is not allowed"),
        ({"grammar": 7}, "grammar=7 is not allowed"),
        ({"choice": ("a", "")}, "choice=.* is not allowed"),
        ({"choice": ()}, r"choice=\(\) is not allowed; give at least one string"),
        ({"regex": "a", "choice": "b"}, "regex and choice cannot be given together; keep one of them"),
        ({"json_schema": {}, "json_object": True}, "json_schema and json_object cannot be given together"),
    ],
)
def test_values_that_make_no_grammar_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        SamplingParams(**options)


def test_a_schema_is_kept_as_text_so_that_options_stay_plain_values() -> None:
    params = SamplingParams(json_schema={"type": "object"})
    assert params == SamplingParams(json_schema='{"type": "object"}')
    assert params.output_grammar == ("json_schema", json.dumps({"type": "object"}))
    assert hash(params) == hash(replace(params))
