from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from outrider.cli.main import main
from outrider.heads.exchange import load_head, save_head
from tiny_heads import eagle3_head, eagle_head, medusa_heads
from tiny_target import write_target

Captured = pytest.CaptureFixture[str]
HEADS = {
    "eagle3": (eagle3_head, "specforge", ["sglang", "speculators"]),
    "eagle": (eagle_head, "eagle", ["eagle-vllm"]),
    "medusa": (medusa_heads, "medusa", ["medusa-pt", "medusa-vllm"]),
}


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_is_told_of_and_written_for_other_programs_and_back(
    kind: str, tmp_path: Path, capsys: Captured
) -> None:
    make, first, others = HEADS[kind]
    here, target = tmp_path / first, ["--target", str(write_target(tmp_path / "target"))]
    save_head(make(), here, first, target="x", target_architecture="LlamaForCausalLM")
    for other in others:
        there, back = tmp_path / other, tmp_path / f"{other}-back"
        assert main(["head", str(here), "--out", str(there), "--format", other, *target, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["kind"], told["format"], told["written"]["format"]) == (kind, first, other)
        assert main(["head", str(there), "--out", str(back), "--format", first, *target]) == 0
        assert f"kind: {kind}" in capsys.readouterr().out
        before, after = (load_head(path, dtype=None).head.state_dict() for path in (here, back))
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_numbers_take_the_type_that_is_asked_for(tmp_path: Path, capsys: Captured) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    save_head(eagle3_head(), here, "specforge", target="x", target_architecture="LlamaForCausalLM")
    assert main(["head", str(here), "--out", str(there), "--dtype", "fp16"]) == 0
    assert main(["head", str(there), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["dtype"] == "float16"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere"),
        (["HEAD", "--format", "sglang"], "--out"),
        (["HEAD", "--out", "NEW", "--format", "sglanf"], "sglang"),
        (["HEAD", "--out", "NEW", "--format", "medusa"], "eagle3"),
        (["HEAD", "--dtype", "int8"], "fp32, fp16, bf16"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], said: str, tmp_path: Path, capsys: Captured) -> None:
    here = tmp_path / "here"
    save_head(eagle3_head(), here, "specforge", target="x", target_architecture="LlamaForCausalLM")
    stands_for = {"HEAD": str(here), "NEW": str(tmp_path / "new")}
    assert main(["head", *(stands_for.get(word, word) for word in words)]) in (1, 2)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
