"""The plan: acceptance as written or as counted, the document, the tables, the pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.bench.acceptance import Counted, counted_in, parse_acceptance
from outrider.bench.plan import Machine, Question, machine_of, plan_document, plan_tables, weights_of
from outrider.bench.plan_plot import KINDS, page, plot_plan
from outrider.bench.plot import check_plot
from outrider.bench.result import BENCH_SCHEMA
from outrider.cli import terminal
from outrider.errors import CapabilityError, LoadError, OptionError
from outrider.models.toy import ToyTarget
from outrider.native import why_missing
from outrider.planner.forecast import Costs, Work, bounds
from outrider.planner.latency import Latency
from tiny import tiny_config, tiny_decoder

COSTS = Costs(Latency((1, 2, 4, 8), (10.0, 11.0, 12.0, 30.0)), context=16)
PROVENANCE = {"model": {"name": "a model <of> two"}}


def document(machine: Machine | None = None) -> dict[str, Any]:
    question = Question("suffix", [[0.8, 0.1], [0.5]], "given", (1, 8), 3)
    return plan_document(question, COSTS, machine, PROVENANCE)


def machine() -> Machine:
    work = Work(weight_bytes=900, cache_bytes=100, weights=50)
    return Machine(250.0, 50.0, bounds(COSTS, work, (1, 8), bandwidth=250.0, rate=50.0))


def bench_result(path: Path, drafted: list[int], accepted: list[int], passes: int = 200) -> Path:
    row = {"drafter": "suffix", "category": "overall", "overhead_ms_per_step": 0.5}
    counts = {"drafted_per_position": drafted, "accepted_per_position": accepted}
    counts["mean_accepted_length"] = 1 + sum(accepted) / passes  # type: ignore[assignment]
    task = {"drafter": "suffix", "category": "qa", "drafted_per_position": [9], "accepted_per_position": [9]}
    plain = {**row, "drafter": "none", "overhead_ms_per_step": 0.25}
    written = {"schema": BENCH_SCHEMA, "results": [task, {**row, **counts}, plain]}
    path.write_text(json.dumps(written), encoding="utf-8")
    return path


def test_acceptance_is_written_by_depth_and_by_rank_within_a_depth() -> None:
    assert parse_acceptance("0.7") == [[0.7]]
    assert parse_acceptance("0.6/0.2, 0.5/0.1,1") == [[0.6, 0.2], [0.5, 0.1], [1.0]]


@pytest.mark.parametrize("text", ["", "often", "0.7,", "1.1", "-0.1", "nan", "0.6/0.5"])
def test_what_is_no_chance_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--acceptance"):
        parse_acceptance(text)


def test_acceptance_of_a_result_is_that_of_drafts_that_got_so_deep(tmp_path: Path) -> None:
    """Of 100 drafts 60 kept a token; of these at most 40 went on, and 20 kept a second one.

    At the third depth 30 drafts arrived, but only 20 of them can have kept what was before it.
    """
    file = bench_result(tmp_path / "r.json", [100, 40, 30], [60, 20, 10])
    assert counted_in(file, "suffix") == Counted([[0.6], [0.5], [0.5]], pytest.approx(0.5), 0.5, 0.25)


def test_depths_that_no_draft_reached_tell_nothing(tmp_path: Path) -> None:
    found = counted_in(bench_result(tmp_path / "r.json", [4, 2, 1], [2, 0, 0]), "suffix")
    assert found.acceptance == [[0.5], [0.0]]


def test_a_file_without_such_figures_is_refused_with_what_it_has(tmp_path: Path) -> None:
    file = bench_result(tmp_path / "r.json", [], [])
    with pytest.raises(LoadError, match="drafted nothing"):
        counted_in(file, "suffix")
    with pytest.raises(LoadError, match="it has those of: suffix, none"):
        counted_in(file, "recycle")
    with pytest.raises(LoadError, match="cannot read"):
        counted_in(tmp_path / "none.json", "suffix")
    for text in ("[]", "{}", '{"schema": {"name": "outrider.bench.curve"}}', "no"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(LoadError, match=r"r\.json"):
            counted_in(file, "suffix")


def test_the_document_tells_every_forecast_and_the_best_of_each_batch() -> None:
    found = document()
    assert [(row["batch"], row["length"]) for row in found["forecasts"]] == [
        (batch, length) for batch in (1, 8) for length in range(4)
    ]
    alone, many = found["best"]
    assert (alone["length"], alone["tokens"]) == (3, pytest.approx(1 + 0.8 + 0.4 + 0.2))
    assert alone["speedup"] == pytest.approx(2.4 * 10 / 12)
    assert alone["tree"]["speedup"] >= alone["speedup"]
    assert (many["length"], many["speedup"], many["tree"]["parents"]) == (0, 1.0, [])
    assert found["stops_paying"]["batch"] == 3
    assert (found["roofline"], found["draft_latency"]) == (None, None)


def test_people_are_shown_each_batch_with_its_best_length_marked() -> None:
    console = terminal.console()
    with console.capture() as captured:
        for part in plan_tables(document(machine())):
            console.print(part)
    shown = captured.get()
    assert "2.00×*" in shown
    assert "1.00×*" in shown
    assert "no draft pays: 3" in shown
    assert "more than 8 rows were not measured" in shown
    assert "compute" in shown


@pytest.mark.skipif(why_missing() is not None, reason="the native core was not built")
def test_the_bounds_of_a_decoder_are_those_of_its_own_matrices() -> None:
    target = tiny_decoder(tiny_config())
    found = machine_of(target, COSTS)
    assert weights_of(tiny_config()) == 2 * (48 * (96 + 2 * 32) + 48 * 96 + 3 * 48 * 80) + 48 * 97
    assert [bound.operations for bound in found.bounds] == [
        2 * rows * weights_of(tiny_config()) for rows in (1, 2, 4, 8)
    ]
    assert found.bandwidth > 0
    assert found.bounds[0].bytes > target.weight_bytes


def test_a_target_that_cannot_tell_its_bytes_has_no_bounds() -> None:
    with pytest.raises(CapabilityError):
        machine_of(ToyTarget(8), COSTS)


def test_a_plot_of_another_kind_and_a_plot_without_matplotlib_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(OptionError, match=r"\.png or \.html"):
        check_plot(Path("plan.gif"), *KINDS)
    monkeypatch.setattr("outrider.bench.plot.find_spec", lambda name: None)
    with pytest.raises(CapabilityError, match="matplotlib"):
        check_plot(Path("plan.png"), *KINDS)


@pytest.mark.parametrize("bounded", [True, False])
def test_a_plot_is_a_picture_or_a_page_that_needs_nothing_beside_it(tmp_path: Path, bounded: bool) -> None:
    pytest.importorskip("matplotlib")
    found = document(machine() if bounded else None)
    plot_plan(found, tmp_path / "plan.png")
    picture = (tmp_path / "plan.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    plot_plan(found, tmp_path / "plan.html")
    text = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert 'src="data:image/png;base64,' in text
    assert "no draft pays: 3" in text
    with pytest.raises(LoadError, match="--plot"):
        plot_plan(found, tmp_path / "none" / "plan.png")


def test_a_page_shows_names_as_text_and_loads_nothing() -> None:
    text = page(document(), b"picture")
    assert "a model &lt;of&gt; two, suffix" in text
    assert "://" not in text
    assert "<script" not in text
    assert "<link" not in text
