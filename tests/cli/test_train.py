"""`outrider train`: from a target to a drafter of its own, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from outrider.cli.main import main
from outrider.heads.exchange import load_head
from tiny_target import write_target

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_target(tmp_path_factory.mktemp("target")))


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("prompts") / "prompts.txt"
    file.write_text("\n".join(f"say {letter}" for letter in "abcdefghijklmnop"), encoding="utf-8")
    return str(file)


QUICK = ("--length", "48", "--epochs", "1", "--batch", "4", "--max-tokens", "16", "--weights", "fp32")


def test_texts_are_written_once_and_train_both_kinds(
    target: str, prompts: str, tmp_path: Path, capsys: Captured
) -> None:
    texts, head, draft = (str(tmp_path / name) for name in ("texts", "head", "draft"))
    fixed = ["--max-tokens", "16", "--weights", "fp32"]
    assert main(["train", "data", target, "--prompts", prompts, "--out", texts, *fixed]) == 0
    assert "next: outrider train eagle3" in capsys.readouterr().out
    sizes = ["--draft-vocab", "200", "--inner", "32", "--json"]
    assert main(["train", "eagle3", target, "--data", texts, "--out", head, *QUICK, *sizes]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["reason"] == "done"
    assert len(document["kept"]) == 3
    assert load_head(head).head.kind == "eagle3"
    assert main(["train", "distill", target, "--data", texts, "--layers", "2", "--out", draft, *QUICK]) == 0
    assert f"--drafter lm:{draft}" in capsys.readouterr().out
    words = ["generate", target, "--prompt", "say x", "--chat", "--max-tokens", "8", "--json"]
    assert main([*words, "--drafter", f"lm:{draft}"]) == 0
    drafted = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert main([*words, "--drafter", "none"]) == 0
    assert drafted["token_ids"] == json.loads(capsys.readouterr().out.splitlines()[-1])["token_ids"]


def test_a_run_with_half_precision_and_a_picture(
    target: str, prompts: str, tmp_path: Path, capsys: Captured
) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "heads"
    words = f"train medusa {target} --data {prompts} --heads 2 --out {out} --precision bf16".split()
    assert main([*words, *QUICK]) == 0
    assert "drawn in" in capsys.readouterr().out
    assert (out / "training" / "training.png").stat().st_size > 1000
    assert load_head(out).head.kind == "medusa"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["eagle3", "--preset", "huge"], "unknown preset 'huge'"),
        (["eagle3", "--feature-layers", "1,x"], "write layers as 1,14,26"),
        (["eagle3", "--feature-layers", "1,99,3"], "name layers from 0 to 7, rising"),
        (["eagle3", "--format", "medusa"], "is for medusa heads; use speculators, specforge, sglang"),
        (
            ["medusa", "--format", "medusa", "--draft-vocab", "100", "--data", "PROMPTS"],
            "save them as 'medusa-vllm'",
        ),
        (["distill", "--layers", "0,9"], "the target's are 0 to 7"),
        (["distill", "--layers", "9"], "the target has 8 layers"),
        (["distill", "--layers", "2,1"], "in rising order"),
        (["distill", "--loss", "mse"], "unknown loss 'mse'"),
        (["distill", "--temperature", "0,hot"], "write numbers from 0 up"),
        (["distill", "--data", "nowhere.txt"], "there is no 'nowhere.txt'"),
        (["distill", "--resume"], "no run to resume"),
        (["data", "--count", "0"], "--count"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is(
    words: list[str], said: str, target: str, prompts: str, tmp_path: Path, capsys: Captured
) -> None:
    command, *rest = (prompts if word == "PROMPTS" else word for word in words)
    assert main(["train", command, target, "--out", str(tmp_path / "out"), *rest]) in (1, 2)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out" / "training" / "checkpoint.pt").exists()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:40] + b"?" + data[41:], "damaged at byte 0; restore it, or remove 00000.shard"),
        (lambda data: data[:9], "holds no texts yet"),
    ],
)
def test_damaged_texts_are_refused_before_anything_is_learned(
    damage: Callable[[bytes], bytes],
    said: str,
    target: str,
    prompts: str,
    tmp_path: Path,
    capsys: Captured,
) -> None:
    texts, head = tmp_path / "texts", tmp_path / "head"
    words = ["--prompts", prompts, "--max-tokens", "8", "--weights", "fp32"]
    assert main(["train", "data", target, "--out", str(texts), *words]) == 0
    (shard,) = texts.glob("*.shard")
    shard.write_bytes(damage(shard.read_bytes()))
    assert main(["train", "eagle3", target, "--data", str(texts), "--out", str(head), *QUICK]) == 1
    assert said in capsys.readouterr().err
    assert not (head / "config.json").exists()


def test_a_head_is_refused_beside_another_target(
    target: str, prompts: str, tmp_path: Path, capsys: Captured
) -> None:
    """Also one whose map of draft tokens was cut, so that it points outside of the target's vocabulary."""
    head, tensors = tmp_path / "head", tmp_path / "head" / "model.safetensors"
    words = ["train", "eagle3", target, "--data", prompts, "--out", str(head), *QUICK]
    assert main([*words, "--draft-vocab", "150"]) == 0
    other = write_target(tmp_path / "other", hidden=64)
    drafting = ["--prompt", "say x", "--max-tokens", "4", "--drafter", f"eagle:{head}"]
    assert main(["generate", str(other), *drafting]) == 1
    assert "this head was made for another target: it expects 32" in capsys.readouterr().err
    held = load_file(tensors)
    held["d2t"][-1] += 1000
    save_file(held, tensors)
    assert main(["generate", target, *drafting]) == 1
    assert "d2t holds offsets" in capsys.readouterr().err


def test_a_run_is_resumed_only_as_it_was_begun(
    target: str, prompts: str, tmp_path: Path, capsys: Captured
) -> None:
    words = ["train", "eagle3", target, "--data", prompts, "--out", str(tmp_path / "head"), *QUICK]
    assert main([*words, "--draft-vocab", "150"]) == 0
    assert main([*words, "--draft-vocab", "150"]) == 2
    assert "continue it with --resume" in capsys.readouterr().err
    assert main([*words, "--draft-vocab", "140", "--resume"]) == 2
    assert "begun with shape" in capsys.readouterr().err
    again = [word if word != "1" else "2" for word in words]
    assert main([*again, "--draft-vocab", "150", "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["step"] > 4


def test_short_runs_foretell_which_size_pays(
    target: str, prompts: str, tmp_path: Path, capsys: Captured
) -> None:
    """They are run once: what a command that is given again with --resume says rests on the same runs."""
    out = tmp_path / "scale"
    words = ["train", "scale", target, "--data", prompts, "--out", str(out), *QUICK, "--context", "16"]
    words = [word if word != "1" else "4" for word in words]
    words += ["--sizes", "200x32,260x48", "--depth", "2", "--json"]
    assert main(words) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [size["name"] for size in first["sizes"]] == ["200x32", "260x48"]
    for size in first["sizes"]:
        tokens = [run["tokens"] for run in size["runs"]]
        assert tokens == sorted(set(tokens))
        assert size["c"] > 0
        assert [row["extrapolated"] for row in size["forecasts"]][1:] == [True, True]
        assert load_head(out / size["runs"][-1]["directory"]).head.kind == "eagle3"
    assert json.loads((out / "scale.json").read_text())["law"] == first["law"]
    assert main(words) == 2
    assert "continue it with --resume" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert again["law"] == pytest.approx(first["law"])
    assert main([word for word in words if word != "--json"] + ["--resume"]) == 0
    said = capsys.readouterr().out
    assert "a run foretold from the others is off by" in said
    assert "an extrapolation" in said or "no head pays" in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--sizes", "tny"], 2, "unknown size 'tny'; did you mean 'tiny'"),
        (["--sizes", ","], 2, "--sizes names no size"),
        (["--sizes", "300x32,400x32"], 2, "are the same head for this target"),
        (["--context", "4000"], 2, "there is room for --context"),
        (["--minutes", "0"], 2, "minutes"),
        (["--resume"], 2, "no run to resume"),
        (["--data", "nowhere"], 2, "there is no 'nowhere'"),
    ],
)
def test_what_cannot_be_sized_is_refused(
    words: list[str], code: int, said: str, target: str, tmp_path: Path, capsys: Captured
) -> None:
    usual = ["train", "scale", target, "--out", str(tmp_path / "out")]
    usual += [] if "--context" in words else ["--context", "16"]
    assert main([*usual, *words]) == code
    assert said in capsys.readouterr().err
    assert not list((tmp_path / "out").rglob("checkpoint.pt"))
