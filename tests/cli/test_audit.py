from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint

import pytest
import torch

from outrider import registry
from outrider.cli.main import main
from outrider.loop.accept.rejection import Rejection
from outrider.sampling.draws import Draws
from outrider.types import Scored, Verdict

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


MIXES = {
    "grammar": ("coupled", ["temperature=0.8", "regex=[a-z ]+", "frequency_penalty=0.3", "min_tokens=3"]),
    "choice": ("traversal", ['choice=["yes", "no", "never"]', "top_p=0.9"]),
    "object": ("block", ["json_object=true", "temperature=1.2", "typical_p=0.9"]),
    "schema": (
        "coupled",
        ['json_schema={"enum": ["a", "bb", "bab"]}', "temperature=1.3", "presence_penalty=1"],
    ),
    "ends": (
        "coupled",
        ['stop=["e", "the"]', "stop_token_ids=[7]", "banned_words=a", "logprobs=2", "prompt_logprobs=1"],
    ),
    "tokens": (
        "recursive",
        ['logit_bias={"5": 2, "9": -1}', "banned_tokens=[3]", "no_repeat_ngram_size=3", "min_p=0.02"],
    ),
    "allowed": ("greedy", ["allowed_tokens=[3, 4, 5, 6, 7]", "repetition_penalty=1.3", "logprobs=0"]),
}


@pytest.mark.parametrize("mix", MIXES)
def test_every_mix_of_options_is_looked_at_and_passes(mix: str, tiny: str, capsys: Captured) -> None:
    """Grammars used to be missing in the laws that sampled text was held to, and stop texts cut it."""
    rule, mixed = MIXES[mix]
    words = ["audit", tiny, "--rule", rule, "--drafter", f"lm:{tiny}", "--budget", "3", "--cases", "1"]
    given = [word for option in mixed for word in ("--option", option)]
    assert main([*words, "--max-tokens", "8", "--seeds", "10", "--json", *given]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    loops = [check["detail"] for check in found["checks"] if check["part"] == "loop"]
    assert sum("not looked at" in detail for detail in loops) < len(loops) or mix == "choice"


class KeepsAll(Rejection):
    """Keeps every guess, whatever the target says."""

    name = "keeps all"

    def decide(self, scored: Scored, draws: Draws) -> Verdict:
        last = len(scored.tree)
        return Verdict(tuple(range(last)), draws.token(scored.laws[last], last))


def test_a_wrong_rule_of_another_package_is_found(
    tiny: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    point = EntryPoint("keeps all", f"{__name__}:KeepsAll", "outrider.rules")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "outrider.rules" else [])
    words = ["audit", tiny, "--rule", "keeps all", "--drafter", f"lm:{tiny}", "--cases", "2", "--seeds", "5"]
    assert main([*words, "--max-tokens", "4", "--json"]) == 1
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["passed"] is False
    assert found["verdicts"]["rules"] is False
    assert found["verdicts"]["loop"] is False
    assert found["verdicts"]["rows"] is True


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("top_p", "write NAME=VALUE"),
        ("topp=0.9", "did you mean 'top_p'"),
        ("top_p=2", "top_p=2 is not allowed"),
        ("n=3", "--option n is not taken: every text is audited by itself"),
        ("seed=3", "an audit runs many seeds"),
        ("max_tokens=3", "give --max-tokens"),
        ("logits_processors=f", "a function cannot be written"),
        ('logit_bias={"x": 1}', "logit_bias={'x': 1} is not allowed"),
        ("regex=(", "regex does not compile"),
        ("banned_tokens=[9999]", "outside this model's vocabulary"),
        ('json_schema={"type": "no"}', "json_schema does not compile"),
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
