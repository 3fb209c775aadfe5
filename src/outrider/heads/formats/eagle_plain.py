"""EAGLE-1 and EAGLE-2 heads as SafeAILab's code trains and reads them: a flat Llama configuration.

Names: SafeAILab/EAGLE (eagle/model/cnets1.py).
"""

from __future__ import annotations

from outrider.errors import HeadError
from outrider.heads.eagle import EagleHead
from outrider.heads.formats.eagle_tensors import (
    eagle_settings,
    eagle_tensors,
    load_eagle,
    recognises_tensors,
)
from outrider.heads.formats.settings import Settings
from outrider.heads.formats.spelling import ForTarget, HeadFiles, Spelling, Written


def _recognises(files: HeadFiles) -> bool:
    return recognises_tensors(files) and files.config.get("model_type") != "eagle"


def _load(files: HeadFiles) -> EagleHead:
    return load_eagle(files, Settings(files.config, str(files.directory / "config.json")))


def _write(head: EagleHead, target: ForTarget) -> Written:
    if head.config.layer.output_bias:
        raise HeadError("SafeAILab's code has no bias after attention; save the head as 'eagle-vllm'")
    if head.config.input_norms:
        raise HeadError(
            "SafeAILab's code has no norms before the fusion (HASS); save the head as 'eagle-vllm'"
        )
    return Written(eagle_settings(head), eagle_tensors(head))


EAGLE = Spelling("eagle", "eagle", _recognises, _load, _write)
