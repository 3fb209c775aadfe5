from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from outrider.bench import plot
from outrider.errors import CapabilityError, LoadError, OptionError


def document() -> dict[str, Any]:
    rows = [
        {
            "drafter": drafter,
            "clients": clients,
            "rate": rate,
            "tokens_per_second": 100.0,
            "time_per_token": {"p50": None if clients == 1 else 0.01},
            "time_to_first_token": {"p50": 0.2},
        }
        for drafter in ("none", "suffix")
        for clients, rate in ((1, None), (4, None), (None, 2.5))
    ]
    return {"results": rows, "suite": {"name": "own"}, "provenance": {"model": {"name": "toy"}}}


def test_without_matplotlib_a_picture_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda _: None)
    with pytest.raises(CapabilityError, match="pip install"):
        plot.check_plot(Path("load.png"), *plot.KINDS)


def test_a_picture_has_a_name_that_says_its_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda _: object())
    plot.check_plot(Path("load.png"), *plot.KINDS)
    with pytest.raises(OptionError, match=r"\.png"):
        plot.check_plot(Path("load.txt"), *plot.KINDS)


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the plot extra")
def test_a_picture_is_drawn_of_closed_and_open_loads(tmp_path: Path) -> None:
    file = tmp_path / "load.png"
    plot.plot_load(document(), file)
    assert file.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(LoadError, match="--plot"):
        plot.plot_load(document(), tmp_path / "missing" / "load.png")
