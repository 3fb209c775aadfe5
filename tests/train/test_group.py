"""Several processes train as one does."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from outrider.cli.main import main
from outrider.errors import CapabilityError, OptionError
from outrider.llm import LLM
from outrider.train.group import ALONE, Group, joined
from outrider.train.loop import train
from outrider.train.run import claim
from tiny_training import QUICK, make, texts_of

Captured = pytest.CaptureFixture[str]
needs_accelerate = pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is not installed")
LAUNCH = (*("-m", "torch.distributed.run", "--nproc_per_node", "2"), "--standalone")


def launched(*words: str) -> subprocess.CompletedProcess[str]:
    """Run two processes on the CPU."""
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *LAUNCH, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


@needs_accelerate
@pytest.mark.parametrize("kind", ["eagle3", "on-policy"])
def test_two_processes_give_what_one_gives_with_the_doubled_batch(
    kind: str, llm: LLM, target_directory: Path, data: Path, tmp_path: Path
) -> None:
    """Also where a signal to one of them stops both, and they go on; sums are rounded in another order."""
    texts = texts_of(llm, data)
    alone, shared = (tmp_path / name for name in ("alone", "shared"))
    task = make(kind, llm, target_directory, texts)
    run = claim(alone, {"kind": "tiny"}, resume=False)
    train(task, texts, QUICK, run)
    script = str(Path(__file__).parents[1] / "shared_run.py")
    found = launched(script, kind, str(target_directory), str(data), str(shared))
    assert found.returncode == 0, found.stderr
    both = claim(shared, {"kind": "tiny"}, resume=True)
    one, other = ([line for line in one.lines() if "loss" in line] for one in (run, both))
    assert [line["step"] for line in one] == [line["step"] for line in other]
    assert [line["loss"] for line in one] == pytest.approx([line["loss"] for line in other], rel=1e-4)
    state = both.load()
    assert state is not None
    for name, tensor in task.module.state_dict().items():
        far = (state["module"][name] - tensor).double().norm()
        assert far <= 1e-3 * tensor.double().norm(), name


@needs_accelerate
def test_a_command_that_is_launched_twice_speaks_once(
    llm: LLM, target_directory: Path, data: Path, tmp_path: Path
) -> None:
    """And what is wrong is wrong for both: nobody waits for the other."""
    words = ["-m", "outrider", "train", "eagle3", str(target_directory), "--data", str(data)]
    words += ["--out", str(tmp_path / "head"), "--weights", "fp32", "--draft-vocab", "200", "--inner", "32"]
    words += ["--length", "48", "--epochs", "1", "--batch", "2", "--json"]
    first = launched(*words)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count('"reason"') == 1
    again = launched(*words)
    assert again.returncode != 0
    assert "continue it with --resume" in again.stderr
    assert "Traceback" not in again.stderr.split("torch/distributed")[0]


@pytest.mark.parametrize("length", [1, 4, 7])
def test_every_text_of_a_batch_is_one_processes(length: int) -> None:
    batch = [*range(length)]
    found: list[int] = []
    for rank in range(3):
        group = Group()
        group.rank, group.size = rank, 3
        found += group.share(batch)
    assert sorted(found) == batch


def test_what_one_process_does_alone_is_refused_to_several(
    target_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    words = ["train", "data", str(target_directory), "--count", "2", "--out", str(tmp_path / "data")]
    assert main(words) == 2
    assert "runs in one process" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
    monkeypatch.setattr("outrider.train.group.find_spec", lambda _: None)
    with pytest.raises(CapabilityError, match=r'pip install "accelerate>=1\.0"'):
        joined()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACCELERATE_MIXED_PRECISION", "bf16"),
        ("ACCELERATE_USE_FSDP", "true"),
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4"),
    ],
)
def test_a_setting_of_accelerate_that_would_be_ignored_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(OptionError, match=f"{name}={value} is not followed here"):
        joined()
    assert joined(precision="bf16") is ALONE if name.endswith("PRECISION") else True


def test_one_process_alone_changes_nothing() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = before = torch.tensor([0.1, 0.7])
    ALONE.average([parameter], 1.0)
    assert parameter.grad is before
    assert ALONE.sum(0.1) == ALONE.first(0.1) == 0.1
    assert ALONE.place("cuda:3") == "cuda:3"
