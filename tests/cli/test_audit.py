from __future__ import annotations

import json

import pytest
import torch

from outrider.cli.main import main

Captured = pytest.CaptureFixture[str]


def test_all_checks_pass_on_a_sound_model(tiny: str, capsys: Captured) -> None:
    assert main(["audit", tiny, "--cases", "1", "--max-tokens", "16", "--seeds", "20", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = json.loads(lines[-1])
    assert len(lines) == 1
    assert found["passed"] is True
    assert all(set(check) == {"part", "name", "passed", "detail"} for check in found["checks"])
    assert all(check["passed"] for check in found["checks"])
    assert found["verdicts"] == dict.fromkeys(("rules", "loop", "rows", "tokens", "law"), True)
    names = " ".join(check["name"] for check in found["checks"])
    assert all(part in names for part in ("rule rejection", "rows in a tree", "same tokens, seeded"))


def test_rows_that_lean_on_their_neighbours_are_found(
    tiny: str, decoder_class: type, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    sound = decoder_class.forward  # type: ignore[attr-defined]

    def leaning(self: object, *arguments: object) -> torch.Tensor:
        logits = sound(self, *arguments)  # type: ignore[arg-type]
        return logits + 1e-3 * (len(logits) > 1)

    monkeypatch.setattr(decoder_class, "forward", leaning)
    assert main(["audit", tiny, "--rule", "greedy", "--cases", "1", "--max-tokens", "4"]) == 1
    out = capsys.readouterr().out
    assert "FAILED rows in a chain: 7 of 7 rows differ" in out
    assert "some checks FAILED" in out


def test_a_rule_that_promises_the_law_is_not_held_to_tokens(tiny: str, capsys: Captured) -> None:
    words = ["audit", tiny, "--rule", "rejection", "--drafter", f"lm:{tiny}", "--cases", "1", "--seeds", "5"]
    assert main([*words, "--max-tokens", "8"]) == 0
    assert "promises the law" in capsys.readouterr().out


def test_it_looks_under_the_options_that_are_named(tiny: str, capsys: Captured) -> None:
    words = [
        "audit",
        tiny,
        "--cases",
        "1",
        "--max-tokens",
        "8",
        "--seeds",
        "5",
        "--rule",
        "coupled",
        "--json",
    ]
    given = ["--option", "temperature=0.6", "--option", "top_p=0.9", "--option", 'logit_bias={"5": 2}']
    assert main([*words, *given]) == 0
    names = [check["name"] for check in json.loads(capsys.readouterr().out)["checks"]]
    assert any("seeded, temperature 0.6" in name for name in names)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("top_p", "write NAME=VALUE"),
        ("topp=0.9", "did you mean 'top_p'"),
        ("top_p=2", "top_p=2 is not allowed"),
        ("n=3", "unknown sampling option 'n'"),
    ],
)
def test_an_option_that_is_none_is_refused(tiny: str, word: str, message: str, capsys: Captured) -> None:
    assert main(["audit", tiny, "--option", word]) == 2
    assert message in capsys.readouterr().err


def test_a_rule_that_promises_nothing_is_looked_at_with_consent_only(tiny: str, capsys: Captured) -> None:
    words = ["audit", tiny, "--rule", "typical", "--cases", "1", "--max-tokens", "4", "--seeds", "2"]
    assert main(words) == 2
    assert "--allow-lossy" in capsys.readouterr().err
    assert main([*words, "--allow-lossy"]) == 0
    assert "promises nothing" in capsys.readouterr().out
