"""Medusa heads as FasterDecoding's code trains and reads them: medusa_lm_head.safetensors, or .pt.

Names: FasterDecoding/Medusa (medusa/model/medusa_model.py). Head i has the blocks `{i}.{j}.linear` and, after
them, its output matrix `{i}.{n}`. That code makes ONE block of each head and runs it n times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch

from outrider.errors import HeadError
from outrider.heads.formats.files import MEDUSA, MEDUSA_PICKLED
from outrider.heads.formats.settings import Settings
from outrider.heads.formats.spelling import ForTarget, HeadFiles, Spelling, Written
from outrider.heads.formats.tensors import filled, some, spelled, without_prefix
from outrider.heads.medusa import MedusaConfig, MedusaHeads

_HEAD = re.compile(r"(\d+)\.(\d+)\.(linear\.weight|linear\.bias|weight)")


def _recognises(files: HeadFiles) -> bool:
    return files.weights == MEDUSA


def _recognises_pickled(files: HeadFiles) -> bool:
    return files.weights == MEDUSA_PICKLED


def _load(files: HeadFiles) -> MedusaHeads:
    without_prefix(files, "medusa_head.")
    settings = Settings(files.config, str(files.directory / "config.json"))
    found = [match for match in map(_HEAD.fullmatch, files.tensors) if match]
    if not found:
        raise settings.error(
            f"{files.weights} holds {some(sorted(files.tensors))}, but no tensor of a Medusa head"
        )
    # Published configurations name other numbers of heads than their files hold.
    heads = 1 + max(int(match[1]) for match in found)
    if settings.has("medusa_num_heads") and (said := settings.whole("medusa_num_heads")) != heads:
        files.notes.append(f"config.json speaks of {said} heads; the file holds {heads}, and all are used")
    blocks = settings.whole("medusa_num_layers", 1)
    output = files.tensors.get(f"0.{blocks}.weight")
    if heads > len(found) or output is None or output.dim() != 2:
        raise settings.error(
            f"{files.weights} lacks the output matrix '0.{blocks}.weight' of a head of {blocks} blocks"
        )
    vocab, hidden = output.shape
    config = MedusaConfig(hidden_size=hidden, vocab_size=vocab, heads=heads, blocks=blocks)
    return filled(files, lambda: MedusaHeads(config), _names(config))


def _write(heads: MedusaHeads, target: ForTarget) -> Written:
    config = heads.config
    impossible = {
        "one output matrix for all": config.shared_output,
        "a draft vocabulary": config.draft_vocab_size is not None,
        "blocks without a bias": not config.block_bias,
        "blocks that differ within a head": any(_differ(head.children()) for head in heads.blocks),
    }
    for what, there in impossible.items():
        if there:
            raise HeadError(f"FasterDecoding's code knows no heads with {what}; save them as 'medusa-vllm'")
    if not target.name:
        raise HeadError("a Medusa file names the model that the heads draft for; say which (target)")
    written = {
        "medusa_num_heads": config.heads,
        "medusa_num_layers": config.blocks,
        "base_model_name_or_path": target.name,
        "version": "2",
    }
    return Written(written, spelled(heads, _names(config)), MEDUSA)


def _write_pickled(heads: MedusaHeads, target: ForTarget) -> Written:
    written = _write(heads, target)
    return Written(written.config, written.tensors, MEDUSA_PICKLED)


def _differ(blocks: Iterable[torch.nn.Module]) -> bool:
    first, *others = (list(block.state_dict().values()) for block in blocks)
    return any(not torch.equal(a, b) for block in others for a, b in zip(first, block, strict=True))


def _names(config: MedusaConfig) -> dict[str, str]:
    names = {}
    for head in range(config.heads):
        for block in range(config.blocks):
            for part in ("weight", "bias"):
                names[f"{head}.{block}.linear.{part}"] = f"blocks.{head}.{block}.{part}"
        names[f"{head}.{config.blocks}.weight"] = f"outputs.{head}.weight"
    return names


MEDUSA_SAFE = Spelling("medusa", "medusa", _recognises, _load, _write)
MEDUSA_PT = Spelling("medusa-pt", "medusa", _recognises_pickled, _load, _write_pickled)
