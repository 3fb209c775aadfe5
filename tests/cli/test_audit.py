from __future__ import annotations

import json

import pytest
import torch

from outrider.cli.main import main

Captured = pytest.CaptureFixture[str]


def test_all_checks_pass_on_a_sound_model(tiny: str, capsys: Captured) -> None:
    assert main(["audit", tiny, "--cases", "1", "--max-tokens", "16", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = json.loads(lines[-1])
    assert len(lines) == 1
    assert found["passed"] is True
    assert all(set(check) == {"name", "passed", "detail"} and check["passed"] for check in found["checks"])
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
    words = ["audit", tiny, "--rule", "rejection", "--drafter", f"lm:{tiny}", "--cases", "1"]
    assert main([*words, "--max-tokens", "8"]) == 0
    assert "promises the law" in capsys.readouterr().out
