"""docs/cli.md and the commands say the same."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from outrider.cli.audit import NOT_TAKEN
from outrider.cli.main import COMMANDS, LazyGroup, app, main
from outrider.native import why_missing
from outrider.sampling.params import SamplingParams
from tiny_target import write_target

DOCS = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
Captured = pytest.CaptureFixture[str]


def options_of(command: Any) -> set[str]:
    found = set()
    for parameter in command.params:
        if parameter.param_type_name == "option":
            found |= {name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--")}
    return found - {"--help"}


def section(heading: str) -> str:
    match = re.search(rf"^#+ {heading}\n(.*?)(?=^#+ |\Z)", DOCS, re.MULTILINE | re.DOTALL)
    assert match is not None, heading
    return match[1]


def commands() -> dict[str, Any]:
    group = typer.main.get_command(app)
    assert isinstance(group, LazyGroup)
    found = {name: group.get_command(None, name) for name in COMMANDS}
    bench = found.pop("bench")
    train = found.pop("train")
    found |= {"bench" if name == "run" else name: bench.commands[name] for name in bench.commands}
    return {**found, **{f"train {name}": train.commands[name] for name in train.commands}}


@pytest.mark.parametrize(
    "name",
    [
        "generate",
        "chat",
        "demo",
        "bench",
        "load",
        "curve",
        "roofline",
        "plan",
        "simulate",
        "audit",
        "serve",
        "train data",
        "train distill",
        "train eagle3",
        "train medusa",
        "train scale",
    ],
)
def test_every_option_is_documented_and_every_documented_option_exists(name: str) -> None:
    options = options_of(commands()[name])
    rows = [line for line in section(name).splitlines() if line.startswith("| `--")]
    documented = {word for line in rows for word in re.findall(r"--[a-z-]+", line.split(" | ")[0])}
    assert documented == options


def test_global_options_are_documented() -> None:
    assert all(f"`{option}`" in DOCS for option in options_of(typer.main.get_command(app)))


def test_every_sampling_option_that_an_audit_takes_is_documented_and_every_other_is_named() -> None:
    text = section("Options under which an audit looks")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    taken = [name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]
    every = {field.name for field in dataclasses.fields(SamplingParams)}
    assert sorted(taken) == sorted(every - set(NOT_TAKEN))
    refused = re.search(r"but (.*?)\.\n", text, re.DOTALL)
    assert refused is not None
    assert set(re.findall(r"`(\w+)`", refused[1])) == set(NOT_TAKEN)


def fields(value: Any, prefix: str = "") -> set[str]:
    """Return the paths of all fields, in the notation of the docs."""
    if isinstance(value, dict):
        return {path for key, item in value.items() for path in fields(item, f"{prefix}.{key}".strip("."))}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return fields(value[0], prefix + "[]")
    return {prefix}


def documented_fields(name: str) -> set[str]:
    table = DOCS.split(f"<!-- fields: {name} -->\n")[1].split("\n\n")[0]
    rows = table.splitlines()[2:]
    return {path for row in rows for path in re.findall(r"`([^`]+)`", row.split(" | ")[0])}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("generate", ["generate", "MODEL", "--prompt", "abcabc", "--max-tokens", "8"]),
        ("bench", ["bench", "MODEL", "--suite", "SUITE", "--max-tokens", "8"]),
        (
            "load",
            ["bench", "load", "MODEL", "--suite", "SUITE", "--max-tokens", "8", "--concurrency", "2"],
        ),
        (
            "curve",
            [
                *("bench", "curve", "MODEL", "--context", "8", "--repeats", "1"),
                *("--drafter", "layerskip", "--drafter-option", "layerskip.skip=1"),
            ],
        ),
        pytest.param(
            "roofline",
            ["bench", "roofline", "MODEL", "--context", "8", "--repeats", "1"],
            marks=pytest.mark.skipif(why_missing() is not None, reason="the native core was not built"),
        ),
        pytest.param(
            "plan",
            ["plan", "MODEL", "--acceptance", "0.7", "--context", "8"],
            marks=pytest.mark.skipif(why_missing() is not None, reason="the native core was not built"),
        ),
        ("simulate", ["simulate", "MODEL", "--acceptance", "0.7", "--suite", "SUITE", "--requests", "2"]),
        ("train data", ["train", "data", "MODEL", "--prompts", "SUITE", "--max-tokens", "4", "--out", "NEW"]),
        (
            "train distill",
            [
                *("train", "distill", "MODEL", "--layers", "1", "--data", "SUITE", "--max-tokens", "4"),
                *("--epochs", "1", "--out", "NEW"),
            ],
        ),
        (
            "train scale",
            [
                *("train", "scale", "MODEL", "--sizes", "64x16", "--data", "SUITE", "--max-tokens", "4"),
                *("--epochs", "8", "--batch", "2", "--context", "8", "--weights", "fp32", "--out", "NEW"),
            ],
        ),
        ("audit", ["audit", "MODEL", "--cases", "1", "--max-tokens", "4"]),
        ("demo", ["demo", "--max-tokens", "4"]),
    ],
)
def test_every_documented_field_exists_and_every_field_is_documented(
    name: str,
    words: list[str],
    tiny: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    import outrider.llm as module

    if name == "train scale":
        tiny = str(write_target(tmp_path / "target"))  # of enough layers for a head
    load = module.load
    monkeypatch.setattr(module, "load", lambda _, **options: load(tiny, **options))
    monkeypatch.setattr("outrider.cli.demo.PROMPTS", {"a question": "qa-1"})
    suite = tmp_path / "suite.jsonl"
    prompts = [json.dumps({"prompt": letter + "bcabcabc"}) for letter in "abcdefgh"]
    suite.write_text(
        "\n".join(prompts if name in ("train distill", "train scale") else prompts[:1]), encoding="utf-8"
    )
    stands_for = {"MODEL": tiny, "SUITE": str(suite), "NEW": str(tmp_path / "new")}
    assert main([*(stands_for.get(word, word) for word in words), "--json"]) == 0
    found = fields(json.loads(capsys.readouterr().out.splitlines()[-1]))
    documented = documented_fields(name)
    inner = {path for path in found if any(path.startswith(f"{whole}.") for whole in documented)}
    assert found - inner == {path for path in documented if path in found}
    assert all(path in found or any(p.startswith(f"{path}.") for p in inner) for path in documented)
