from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.bench.result import bench_document
from outrider.bench.run import run_suite
from outrider.bench.suites import Prompt, Suite
from outrider.engine.result import Origin, Result, Speculation, Timing
from outrider.errors import OptionError, PromptError
from outrider.sampling.params import SamplingParams
from outrider.types import Guarantee

LOG: list[tuple[str, int]] = []


@dataclass
class Scripted:
    """Answers every prompt with `tokens` in `seconds` of decoding."""

    name: str
    seconds: float = 1.0
    tokens: tuple[int, ...] = (1, 2, 3, 4)
    asked: list[int] = field(default_factory=list)

    def generate(self, prompt: list[int], params: SamplingParams) -> Result:
        LOG.append((self.name, prompt[0]))
        drafted = 0 if self.name == "none" else 3
        passes = len(self.tokens) - drafted
        return Result(
            text=f"answer {prompt[0]}",
            token_ids=self.tokens,
            origins=(Origin.PLAIN,) * len(self.tokens),
            finish_reason="length",
            prompt_tokens=len(prompt),
            seed=0,
            timing=Timing(0.5, self.seconds, len(self.tokens) - 1, 1.0, 0.75 * self.seconds, 0.1),
            speculation=Speculation(
                self.name, "greedy", Guarantee.SAME_TOKENS, passes, 2 * drafted, drafted, len(self.tokens)
            ),
        )


class FakeLLM:
    """Turns a prompt into its number and its length; keeps the conversations that it was asked to encode."""

    def __init__(self, *, template: bool = True, context_limit: int = 50) -> None:
        tokenizer = SimpleNamespace(has_chat_template=template)
        target = SimpleNamespace(context_limit=context_limit)
        self.model = SimpleNamespace(tokenizer=tokenizer, target=target)
        self.encoded: list[Any] = []

    def encode(self, prompt: Any, *, chat: bool) -> list[int]:
        assert chat == isinstance(prompt, list)
        self.encoded.append([dict(message) for message in prompt] if chat else prompt)
        text = prompt[-1]["content"] if chat else prompt
        return [int(text[0])] * len(text)


def suite(*texts: str, turns: Sequence[str] = ()) -> Suite:
    return Suite("s", tuple(Prompt(t[0], "ab"[i % 2], (t, *turns)) for i, t in enumerate(texts)))


@pytest.fixture(autouse=True)
def empty_log() -> None:
    LOG.clear()


def test_contestants_answer_prompt_by_prompt_in_an_order_that_turns() -> None:
    runners = [Scripted("none"), Scripted("x"), Scripted("y")]
    run_suite(FakeLLM(), runners, suite("1", "2", "3", "4"), SamplingParams())
    warm_up, measured = LOG[:3], LOG[3:]
    assert [name for name, _ in warm_up] == ["none", "x", "y"]
    assert [prompt for _, prompt in measured] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert [name for name, _ in measured[:9]] == ["none", "x", "y", "x", "y", "none", "y", "none", "x"]


def test_every_answer_is_compared_with_plain_decoding_of_the_same_prompt() -> None:
    runners = [Scripted("none"), Scripted("same", 0.5), Scripted("other", 2.0, (1, 2, 3, 5))]
    measurements = run_suite(FakeLLM(), runners, suite("1", "2", "3"), SamplingParams())
    assert [(m.contestant, m.identical_to_plain, m.speedup) for m in measurements[:3]] == [
        ("none", True, 1.0),
        ("same", True, 2.0),
        ("other", False, 0.5),
    ]
    document = bench_document(measurements, suite("1", "2", "3"), SamplingParams(), {})
    rows = {(row["drafter"], row["category"]): row for row in document["results"]}
    assert len(rows) == 9
    assert rows["same", "overall"]["speedup"] == {"median": 2.0, "low": 2.0, "high": 2.0}
    assert rows["same", "overall"]["mean_accepted_length"] == 4
    assert rows["same", "overall"]["acceptance_rate"] == 0.5
    assert rows["none", "a"]["prompts"] == 2
    assert rows["none", "b"]["decode_tokens_per_second"] == 3
    assert rows["none", "overall"]["acceptance_rate"] is None
    assert rows["none", "overall"]["overhead_ms_per_step"] == pytest.approx(250 / 3)
    assert rows["other", "overall"]["identical_to_plain"] == 0


def test_an_answer_without_decoding_has_no_speedup() -> None:
    runners = [Scripted("none", 0.0, (1,)), Scripted("x", 1.0)]
    measurements = run_suite(FakeLLM(), runners, suite("1"), SamplingParams())
    document = bench_document(measurements, suite("1"), SamplingParams(), {})
    assert [row["speedup"] for row in document["results"]] == [None] * 4


def test_only_the_first_turn_is_asked_unless_all_are_wanted() -> None:
    llm = FakeLLM()
    asked = suite("1", turns=("2", "3"))
    run_suite(llm, [Scripted("none"), Scripted("x")], asked, SamplingParams())
    assert [prompt for _, prompt in LOG[2:]] == [1, 1]
    LOG.clear()
    measurements = run_suite(llm, [Scripted("none"), Scripted("x")], asked, SamplingParams(), turns=True)
    assert [m.turn for m in measurements] == [0, 0, 1, 1, 2, 2]
    assert [message["content"] for message in llm.encoded[-1]] == ["1", "answer 1", "2", "answer 2", "3"]


def test_prompts_beyond_the_context_are_left_out_and_named_in_the_document() -> None:
    asked = suite("1" * 60, "2", "3" * 50)
    measurements = run_suite(FakeLLM(), [Scripted("none")], asked, SamplingParams())
    assert {m.prompt.id for m in measurements} == {"2"}
    assert bench_document(measurements, asked, SamplingParams(), {})["suite"]["left_out"] == ["1", "3"]
    with pytest.raises(PromptError, match="50"):
        run_suite(FakeLLM(), [Scripted("none")], suite("1" * 60), SamplingParams())


def test_prompts_are_bare_without_a_template_and_turns_are_refused() -> None:
    llm = FakeLLM(template=False)
    run_suite(llm, [Scripted("none")], suite("1"), SamplingParams())
    assert llm.encoded == ["1"]
    with pytest.raises(OptionError, match="chat template"):
        run_suite(llm, [Scripted("none")], suite("1"), SamplingParams(), turns=True)
