"""The scripts under benchmarks/ that watch a service: they run, and they see what they are there to see."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import outrider
from outrider.engine.scheduler import Limits
from outrider.llm import LLM

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where its dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = script("soak", monkeypatch)
    monkeypatch.setattr(module, "LATEST", 0.2)
    return module


@pytest.fixture
def arguments(soak: ModuleType) -> argparse.Namespace:
    words = ["--minutes", "0.04", "--warm-up", "1", "--readers", "10", "--cases", "10", "--tokens", "12"]
    found: argparse.Namespace = soak.parsed(words)
    return found


@pytest.fixture
def llm(tiny: str) -> LLM:
    loaded: LLM = outrider.load(tiny, prefix_bytes=2**24)
    return loaded


def test_a_soak_finds_nothing_wrong_and_counts_what_it_did(
    soak: ModuleType, llm: LLM, arguments: argparse.Namespace
) -> None:
    document = soak.soak(llm, arguments)
    assert soak.failures(document) == []
    assert document["requests"] == sum(document["ends"].values()) > 0
    assert document["tokens"] > 0
    assert document["memory"]["mib"]
    assert document["allocated_after"]["blocks"] > 0


def test_a_soak_sees_a_text_that_is_not_plain_decodings(
    soak: ModuleType, llm: LLM, arguments: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = soak.cases

    def wrong(*settings: Any) -> list[Any]:
        def spoilt(tokens: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(token + 1 for token in tokens)

        cases = honest(*settings)
        return [replace(c, expected=spoilt(c.expected), unstopped=spoilt(c.unstopped)) for c in cases]

    monkeypatch.setattr(soak, "cases", wrong)
    assert any("differs from plain" in fault for fault in soak.failures(soak.soak(llm, arguments)))


def test_a_soak_sees_what_is_not_given_back(
    soak: ModuleType, llm: LLM, arguments: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outrider.engine.running import Running

    kept: list[Any] = []
    counted: list[Any] = []
    let_go, objects = Running._let_go, soak.objects

    def forgetful(self: Running, request: Any) -> None:
        """Once the warm-up is over, keep one request with its lease."""
        if not counted or kept or not request.lease or not request.lease.nodes:
            let_go(self, request)
            return
        kept.append(request)
        lease, request.lease = request.lease, None
        let_go(self, request)
        request.lease = lease

    def counting() -> Any:
        counted.append(objects())
        return counted[-1]

    monkeypatch.setattr(soak, "objects", counting)
    monkeypatch.setattr(Running, "_let_go", forgetful)
    found = soak.failures(soak.soak(llm, arguments))
    assert any(wrong.startswith("objects_left") and "engine.request.Request" in wrong for wrong in found)
    assert any(wrong.startswith("pages_left_held") for wrong in found)


def test_memory_that_grows_has_a_slope(soak: ModuleType) -> None:
    assert soak.slope([50.0] * 60) == pytest.approx(0)
    assert soak.slope([0.0] * 60 + [second / 60 for second in range(60)]) == pytest.approx(1)
    assert soak.slope([1.0]) is None


def test_the_simulation_is_set_against_every_load_that_is_measured(
    llm: LLM, suite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = script("simulated", monkeypatch)
    words = ["--suite", suite, "--drafters", "fixed:2:recycle", "--concurrency", "1,3"]
    rows = module.compare(llm.model, module.parsed([*words, "--requests", "4", "--max-tokens", "12"]))
    assert [(row["clients"], row["drafter"]) for row in rows] == [
        (clients, name) for clients in (1, 3) for name in ("none", "fixed:2:recycle")
    ]
    for row in rows:
        real, made = row["measured"], row["simulated"]
        assert row["ratio"] == made["tokens_per_second"] / real["tokens_per_second"] > 0
        assert row["ratio_from_lightest"] > 0
        for field in ("mean_accepted_length", "nodes_per_step", "sequences_per_step"):
            assert made[field] == pytest.approx(real[field])
    assert rows[1]["ratio"] == rows[1]["ratio_from_lightest"]
    assert len(module.table(rows).splitlines()) == 5


def test_times_to_the_first_token_are_measured_in_turn(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("first_token", monkeypatch)
    settings = argparse.Namespace(repeats=2, long=400, short=4, prefix=130, seed=0)
    monkeypatch.setattr(module, "Limits", lambda: Limits(read_rows=8))
    found = module.measure(llm, settings)
    for name in ("idle", "first", "second", "like it"):
        assert len(found[name]["ms"]) == 2
        assert found[name]["low_ms"] <= found[name]["median_ms"] <= found[name]["high_ms"]
    assert len(found.get("beside", {"ms": ()})["ms"]) + found["missed"] == 2
