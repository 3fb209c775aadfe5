"""The public face: what is given is what is run, and what cannot be run is refused before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import outrider
from conftest import VOCAB, plain_tokens, toy_model
from outrider.drafters import build_drafter
from outrider.errors import OptionError, PromptError, UnknownNameError, UsageError, VocabularyError
from outrider.llm import LLM
from outrider.loop.draft.lm import ModelDrafter
from outrider.loop.draft.none import NoDrafter
from outrider.models.base import LoadedModel
from outrider.models.toy import ToyTarget, ToyTokenizer
from outrider.sampling.params import SamplingParams


@pytest.fixture
def llm() -> LLM:
    model = toy_model(ToyTarget(VOCAB, seed=1))
    return LLM(model, NoDrafter(), drafter_name="none", rule="auto", budget=None)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_several_prompts_give_their_results_in_order(llm: LLM) -> None:
    prompts = [[1, 2], [3], [4, 5, 6], [7]]
    params = SamplingParams(max_tokens=6)
    results = llm.generate(prompts, params)
    for prompt, result in zip(prompts, results, strict=True):
        assert result.prompt_tokens == len(prompt)
        assert list(result.token_ids) == plain_tokens(llm.model.target, prompt, params, 6)
    assert llm.generate("cd", params).token_ids == llm.generate([2, 3], params).token_ids
    assert llm.generate(["cd"], params)[0].token_ids == llm.generate([2, 3], params).token_ids


def test_options_by_name_win_over_those_of_the_object(llm: LLM) -> None:
    params = SamplingParams(max_tokens=6, seed=3, temperature=1.0)
    assert llm.generate("ab", params, max_tokens=4).completion_tokens == 4
    assert llm.generate("ab", params, max_tokens=4).seed == 3
    with pytest.raises(UnknownNameError, match="did you mean 'temperature'"):
        llm.generate("ab", temprature=1.0)


def test_another_drafter_rule_or_budget_shares_the_target_and_is_used(llm: LLM) -> None:
    made = llm.using(drafter="suffix", budget=2)
    assert made.model is llm.model
    drafted = made.generate([4, 5] * 6, max_tokens=20, ignore_eos=True).speculation
    assert drafted.drafter == "suffix"
    assert 0 < drafted.drafted <= 2 * drafted.passes
    assert made.using(budget=0).generate([4, 5] * 6, max_tokens=20).speculation.drafted == 0
    again = made.using(rule="rejection")
    assert again.generate("ab", max_tokens=3, temperature=1.0).speculation.rule == "rejection"
    assert again.using().rule_name == "rejection"
    with pytest.raises(UnknownNameError, match="'rejection'"):
        llm.using(rule="rejekt")


@pytest.mark.parametrize("spec", ["lm", "lm:", "suffix:x", "none:x", "suffix:", "none:", "recycle:"])
def test_a_drafter_with_a_model_too_few_or_too_many_is_refused(spec: str, llm: LLM) -> None:
    with pytest.raises(OptionError, match=r"needs a model|takes no argument"):
        llm.using(drafter=spec)


@pytest.mark.parametrize("spec", ["merged:", "merged:suffix", "merged:suffix+", "merged:suffix+suffix"])
def test_a_merged_drafter_without_two_parts_is_refused(spec: str, llm: LLM) -> None:
    """`merged:` once stood for the default parts, as if they had been named."""
    with pytest.raises(OptionError, match=r"needs two or more|a part is missing"):
        llm.using(drafter=spec)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("drafter", 5),
        ("drafter_options", [1]),
        ("drafter_options", "max_nodes=3"),
        ("rule", 5),
        ("rule", ["greedy"]),
        ("guarantee", 5),
        ("guarantee", ["same_law"]),
        ("lossy", "yes"),
        ("weights", 5),
        ("device", 5),
        ("budget", "7"),
        ("fill_budget", "yes"),
        ("threads", "2"),
    ],
)
def test_options_of_loading_of_a_wrong_type_are_named_before_anything_is_loaded(
    option: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several of them once were Python's own errors about attributes, or were taken for true."""
    monkeypatch.setattr("outrider.models.load.locate", lambda name: pytest.fail("the model was looked for"))
    with pytest.raises(UsageError, match=f"{option}|{option.rstrip('s')}.*known") as error:
        outrider.load("x", **{option: value})
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("params", [3, {"max_tokens": 4}, "greedy"], ids=repr)
def test_what_are_no_params_is_refused(params: Any, llm: LLM) -> None:
    for run in (llm.generate, llm.stream):
        with pytest.raises(OptionError, match=r"params=.* is not allowed; give outrider\.SamplingParams"):
            run("ab", params)


@pytest.mark.parametrize("chat", ["yes", 1, None], ids=repr)
def test_chat_is_true_or_false(chat: Any, llm: LLM) -> None:
    with pytest.raises(OptionError, match=r"chat=.* is not allowed; give True or False"):
        llm.generate("ab", chat=chat)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"role": "user"}, "message 1 has no content"),
        ({"role": "user", "content": None}, "message 1 has no content"),
        ({"role": "user", "content": 7}, "message 1 has a content of type int"),
        ({"content": "a"}, "message 1 has no role"),
        ({"role": "", "content": "a"}, "message 1 has no role"),
        ({"role": 5, "content": "a"}, "message 1 has no role"),
        ({}, "message 1 has no role"),
    ],
)
def test_a_message_that_lacks_something_is_named(message: dict[str, Any], says: str, llm: LLM) -> None:
    """Templates made nothing of a missing content, or failed in words of their own."""
    with pytest.raises(PromptError, match=says):
        llm.generate([{"role": "user", "content": "a"}, message])


def test_a_draft_model_is_used_and_one_of_other_tokens_is_refused(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shifted(ToyTokenizer):
        def vocabulary(self) -> dict[str, int]:
            return {chr(ord("b") + token): token for token in range(self.vocab_size)}

    draft = toy_model(ToyTarget(VOCAB, seed=1))
    found: dict[str, LoadedModel] = {
        "right": draft,
        "wrong": LoadedModel("wrong", draft.target, Shifted(VOCAB)),
    }
    asked: list[dict[str, Any]] = []

    def load_model(name: str, **options: Any) -> LoadedModel:
        asked.append(options)
        return found[name]

    monkeypatch.setattr("outrider.models.load.load_model", load_model)
    made = build_drafter("lm:right", llm.model, weights="int8", device="cpu")
    assert isinstance(made, ModelDrafter)
    assert asked == [{"weights": "int8", "activations": "auto", "device": "cpu"}]
    result = llm.using(drafter="lm:right").generate("ab", max_tokens=20, temperature=1.0, seed=1)
    assert result.speculation.accepted == result.speculation.drafted > 0
    with pytest.raises(VocabularyError, match="id 0 is 'a' for the target and 'b' for the draft"):
        llm.using(drafter="lm:wrong")


def test_chat_goes_through_the_template(llm: LLM) -> None:
    class Chatty(ToyTokenizer):
        has_chat_template = True

        def chat(self, messages):  # type: ignore[no-untyped-def]
            return [7, *super().chat(messages), 7]

    model = LoadedModel("toy", llm.model.target, Chatty(VOCAB))
    chatty = LLM(model, NoDrafter(), drafter_name="none", rule="auto", budget=None)
    messages = [{"role": "user", "content": "ab"}]
    expected = chatty.generate([7, 0, 1, 7], max_tokens=5)
    for result in (
        chatty.generate("ab", chat=True, max_tokens=5),
        chatty.generate(messages, max_tokens=5),
        chatty.generate(["ab"], chat=True, max_tokens=5)[0],
        chatty.generate([messages], chat=True, max_tokens=5)[0],
        chatty.stream("ab", chat=True, max_tokens=5).close()
        and chatty.generate("ab", chat=True, max_tokens=5),
    ):
        assert (result.prompt_tokens, result.token_ids) == (4, expected.token_ids)
    with pytest.raises(OptionError, match="token ids"):
        chatty.generate([1, 2], chat=True)


def test_threads_are_set_and_checked(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.models.load.load_model", lambda *_, **__: llm.model)
    torch.set_num_threads(2)
    outrider.load("x", threads=1)
    assert torch.get_num_threads() == 1
    for wrong in (0, 1025, 2.5, True):
        with pytest.raises(OptionError, match=f"threads={wrong}"):
            outrider.load("x", threads=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "prompt", [None, 5, 1.5, [1.5], [None], {"role": "user", "content": "a"}, [[]], "", [], [True]], ids=repr
)
def test_what_is_no_prompt_is_refused_as_one(prompt: Any, llm: LLM) -> None:
    with pytest.raises(PromptError):
        llm.generate(prompt)
    with pytest.raises(PromptError):
        llm.stream(prompt)


def test_a_stream_of_several_prompts_is_refused_as_such(llm: LLM) -> None:
    for several in (["ab", "cd"], [[1, 2], [3]]):
        with pytest.raises(PromptError, match="a stream runs one prompt, and these are several"):
            llm.stream(several)  # type: ignore[arg-type]


def test_the_package_lists_what_it_offers() -> None:
    """Names are imported when first used, so dir() listed helpers instead."""
    assert set(outrider.__all__) < set(dir(outrider))
    assert not {"Any", "import_module"} & set(dir(outrider))
    assert all(getattr(outrider, name) is not None for name in dir(outrider))


@pytest.mark.parametrize("ids", ["array", "list of numpy numbers", "tensor"])
def test_token_ids_from_numpy_or_torch_are_taken(ids: str, llm: LLM) -> None:
    array = np.array([1, 2, 3])
    prompt: Any = {"array": array, "list of numpy numbers": list(array), "tensor": torch.tensor([1, 2, 3])}[
        ids
    ]
    expected = llm.generate([1, 2, 3], max_tokens=5).token_ids
    assert llm.generate(prompt, max_tokens=5).token_ids == expected
    assert llm.generate([prompt, prompt], max_tokens=5)[1].token_ids == expected
    with pytest.raises(PromptError):
        llm.generate(torch.tensor([[1, 2]]) if ids == "tensor" else np.array([1.5]))


@pytest.mark.parametrize("budget", [-1, 2.5, "7", True])
def test_a_budget_that_is_no_whole_number_is_refused_when_loading(budget: Any, llm: LLM) -> None:
    with pytest.raises(OptionError, match="budget"):
        llm.using(budget=budget)
