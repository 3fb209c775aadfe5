"""What every kind of training promises: it learns, and what stops it costs no more than a little time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider.errors import LoadError, OptionError, TrainingError
from outrider.llm import LLM
from outrider.train.loop import train
from outrider.train.readings import Readings
from outrider.train.recipe import Recipe
from outrider.train.run import claim
from outrider.train.task import Progress, Task
from outrider.train.teacher import Teacher
from outrider.train.texts import Texts
from tiny_training import KINDS, QUICK, make

ABOUT = {"kind": "tiny"}
Start = Callable[..., Any]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def weights(task: Task) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in task.module.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_held_out_is_guessed_better_after_training(
    kind: str, llm: LLM, target_directory: Path, texts: Texts, tmp_path: Path
) -> None:
    task = make(kind, llm, target_directory, texts)
    before = task.judge(texts.learned[:6])
    outcome = train(
        task, texts, replace(QUICK, epochs=8, lr=4e-3), claim(tmp_path / "out", ABOUT, resume=False)
    )
    after = task.judge(texts.learned[:6])
    assert outcome.reason == "done"
    assert after.loss < 0.8 * before.loss
    assert after.kept[0] > before.kept[0]


@pytest.mark.parametrize(
    ("kind", "when"),
    [("distill", "between"), ("on-policy", "between"), ("eagle3", "saving"), ("medusa", "between")],
)
def test_a_run_that_was_killed_goes_on_to_the_same_bits(
    kind: str, when: str, llm: LLM, target_directory: Path, data: Path, texts: Texts, tmp_path: Path
) -> None:
    """The last steps before a kill are done again, and the log holds each step once."""
    task = make(kind, llm, target_directory, texts)
    train(task, texts, QUICK, claim(tmp_path / "whole", ABOUT, resume=False))
    script = Path(__file__).parents[1] / "killed_run.py"
    words = [
        sys.executable,
        str(script),
        kind,
        str(target_directory),
        str(data),
        str(tmp_path / "parts"),
        when,
    ]
    assert subprocess.run(words, check=False, capture_output=True).returncode == -signal.SIGKILL
    run = claim(tmp_path / "parts", ABOUT, resume=True)
    state = run.load()
    assert state is not None
    assert state["step"] == (6 if when == "between" else 3)
    again = make(kind, llm, target_directory, texts)
    train(again, texts, QUICK, run)
    assert same(weights(task), weights(again))
    steps = [line["step"] for line in run.lines() if "loss" in line]
    assert steps == list(range(1, steps[-1] + 1))
    exported = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir() if path.is_file()}
    assert "config.json" in exported
    assert all((run.out / name).read_bytes() == held for name, held in exported.items())


def test_ctrl_c_saves_the_step_at_hand(
    llm: LLM, target_directory: Path, texts: Texts, tmp_path: Path
) -> None:
    whole = make("eagle3", llm, target_directory, texts)
    train(whole, texts, QUICK, claim(tmp_path / "whole", ABOUT, resume=False))

    def interrupt(progress: Progress) -> None:
        if progress.step == 4:
            os.kill(os.getpid(), signal.SIGINT)

    run = claim(tmp_path / "out", ABOUT, resume=False)
    task = make("eagle3", llm, target_directory, texts)
    outcome = train(task, texts, QUICK, run, interrupt)
    assert (outcome.reason, outcome.step) == ("stopped", 4)
    assert (run.out / "config.json").exists()
    again = make("eagle3", llm, target_directory, texts)
    assert train(again, texts, QUICK, claim(run.out, ABOUT, resume=True)).reason == "done"
    assert same(weights(whole), weights(again))


def test_a_loss_that_is_no_number_stops_the_run_with_the_last_good_checkpoint(
    llm: LLM, target_directory: Path, texts: Texts, tmp_path: Path
) -> None:
    """A rate that is far too high throws the weights so far that the next step has no numbers."""
    task = make("eagle3", llm, target_directory, texts)
    run = claim(tmp_path / "out", ABOUT, resume=False)
    with pytest.raises(TrainingError, match=r"step 2 gave a loss of (nan|inf).*--resume and an --lr below"):
        train(task, texts, replace(QUICK, lr=1e30, warmup=0, save_seconds=1e-9), run)
    state = run.load()
    assert state is not None
    assert state["step"] == 1
    assert all(
        bool(tensor.isfinite().all()) for tensor in state["module"].values() if tensor.is_floating_point()
    )


def test_gradients_that_are_no_numbers_stop_the_run_too(
    llm: LLM, target_directory: Path, texts: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make("eagle3", llm, target_directory, texts)
    before = weights(task)

    def learn(_: Any, batch: Any) -> float:
        for parameter in task.module.parameters():
            parameter.grad = torch.full_like(parameter, float("inf"))
        return 1.0

    monkeypatch.setattr(type(task), "learn", learn)
    with pytest.raises(TrainingError, match="learning came apart"):
        train(task, texts, QUICK, claim(tmp_path / "out", ABOUT, resume=False))
    assert same(before, weights(task))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_leaves_the_checkpoint_before(
    llm: LLM, target_directory: Path, texts: Texts, tmp_path: Path
) -> None:
    run = claim(tmp_path / "out", ABOUT, resume=False)

    def fill(progress: Progress) -> None:
        if progress.step == 2:
            run.checkpoint.with_name("checkpoint.pt.part").symlink_to("/dev/full")

    task = make("eagle3", llm, target_directory, texts)
    with pytest.raises(TrainingError, match=r"cannot write .*what it held before is untouched; make room"):
        train(task, texts, replace(QUICK, save_seconds=1e-9), run, fill)
    state = run.load()
    assert state is not None
    assert state["step"] == 1
    assert not list(run.inside.glob("*.part"))


def test_a_directory_is_a_runs_own_or_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(OptionError, match="is there already and is no run"):
        claim(tmp_path / "mine", ABOUT, resume=False)
    with pytest.raises(OptionError, match="no run to resume"):
        claim(tmp_path / "new", ABOUT, resume=True)
    claim(tmp_path / "new", ABOUT, resume=False)
    with pytest.raises(OptionError, match="continue it with --resume"):
        claim(tmp_path / "new", ABOUT, resume=False)
    with pytest.raises(OptionError, match="begun with kind 'tiny'"):
        claim(tmp_path / "new", {"kind": "other"}, resume=True)


def test_other_texts_and_damaged_checkpoints_are_refused(
    llm: LLM, target_directory: Path, texts: Texts, tmp_path: Path
) -> None:
    run = claim(tmp_path / "out", ABOUT, resume=False)
    train(make("eagle3", llm, target_directory, texts), texts, replace(QUICK, epochs=0.2), run)
    fewer = replace(texts, learned=texts.learned[1:])
    with pytest.raises(OptionError, match="the texts are not those"):
        train(make("eagle3", llm, target_directory, texts), fewer, QUICK, run)
    run.checkpoint.write_bytes(run.checkpoint.read_bytes()[:-50])
    with pytest.raises(LoadError, match="damaged; remove it to begin this run anew"):
        train(make("eagle3", llm, target_directory, texts), texts, QUICK, run)


def test_minutes_end_a_run_and_are_planned_once(
    llm: LLM, target_directory: Path, texts: Texts, tmp_path: Path
) -> None:
    run = claim(tmp_path / "out", ABOUT, resume=False)
    recipe = replace(QUICK, epochs=1000, minutes=0.02)
    outcome = train(make("eagle3", llm, target_directory, texts), texts, recipe, run)
    assert 0 < outcome.step < 5000
    state = run.load()
    assert state is not None
    assert state["seconds"] < 60
    resumed = train(make("eagle3", llm, target_directory, texts), texts, recipe, run)
    assert resumed.step == outcome.step


def test_a_run_that_goes_on_with_other_minutes_is_planned_by_the_steps_so_far(
    llm: LLM, target_directory: Path, texts: Texts, tmp_path: Path
) -> None:
    run = claim(tmp_path / "out", ABOUT, resume=False)
    train(make("medusa", llm, target_directory, texts), texts, replace(QUICK, epochs=1), run)
    state = run.load()
    assert state is not None
    done = state["step"]
    run.save({**state, "seconds": 10.0 * done, "minutes": 1.0})
    told: list[Progress] = []

    def stop(progress: Progress) -> None:
        told.append(progress)
        raise KeyboardInterrupt

    more = replace(QUICK, epochs=1000, minutes=(10.0 * done + 300) / 60)
    with pytest.raises(KeyboardInterrupt):
        train(make("medusa", llm, target_directory, texts), texts, more, run, stop)
    assert told[0].steps == done + 30


def test_texts_are_read_ahead_as_far_as_there_is_room_to_keep_them(
    llm: LLM, target_directory: Path, texts: Texts, tmp_path: Path
) -> None:
    whole = len(texts.learned)
    told: list[tuple[int, int]] = []
    run = claim(tmp_path / "out", ABOUT, resume=False)
    task = make("medusa", llm, target_directory, texts, kept=Readings(tmp_path / "all.bin", 10**7))
    train(task, texts, replace(QUICK, epochs=0.1), run, reading=lambda *count: told.append(count))
    assert told == [(count, whole) for count in range(1, whole + 1)]
    most = sum(Teacher(llm.model, top=8).read(text).nbytes for text in texts.learned[:3])
    few = Teacher(llm.model, top=8, kept=Readings(tmp_path / "few.bin", most + 3 * 64))
    assert sum(1 for _ in few.read_ahead(texts.learned)) == 3


def test_the_log_says_what_the_held_out_texts_say(
    llm: LLM, target_directory: Path, texts: Texts, tmp_path: Path
) -> None:
    run = claim(tmp_path / "out", ABOUT, resume=False)
    outcome = train(make("eagle3", llm, target_directory, texts), texts, QUICK, run)
    looks = [line for line in run.lines() if "held_loss" in line]
    assert [look["step"] for look in looks] == [0, 5, 10, 15]
    assert outcome.judgement is not None
    assert looks[-1]["kept"] == list(outcome.judgement.kept)
    assert json.loads((run.inside / "run.json").read_text())["kind"] == "tiny"


@pytest.mark.parametrize(
    "option", [{"lr": 0.0}, {"minutes": -1}, {"batch": 0}, {"precision": "int4"}, {"length": 2}]
)
def test_a_recipe_out_of_its_range_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Recipe(**option)
