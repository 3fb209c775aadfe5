"""EAGLE-3 heads as SGLang serves them: SpecForge's tensors, with every flag that SGLang reads said.

Names and flags: sgl-project/sglang (python/sglang/srt/models/llama_eagle3.py). The list of layers in
`eagle_config` names outputs, as SpecForge's does; SGLang adds one itself before it counts inputs.
"""

from __future__ import annotations

from outrider.heads.eagle3 import Eagle3Head
from outrider.heads.formats import midlayer
from outrider.heads.formats.eagle3_tensors import eagle3_tensors
from outrider.heads.formats.spelling import ForTarget, HeadFiles, Spelling, Written


def _recognises(files: HeadFiles) -> bool:
    """Tell nothing apart: SGLang's files are SpecForge's, and are read as such."""
    return False


def _write(head: Eagle3Head, target: ForTarget) -> Written:
    """Return what a directory is to hold; the target is not named there."""
    config = {**midlayer.midlayer_settings(head, "SGLang"), "norm_output": head.config.feed_normed}
    return Written(config, eagle3_tensors(head, midlayer.LAYER))


SGLANG = Spelling("sglang", "eagle3", _recognises, midlayer.load, _write)
