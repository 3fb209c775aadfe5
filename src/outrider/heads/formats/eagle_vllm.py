"""EAGLE-1 and EAGLE-2 heads as vLLM serves them: SafeAILab's tensors, the configuration wrapped.

Names: vllm-project/vllm, in vllm: transformers_utils/configs/eagle.py, model_executor/models/llama_eagle.py.
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
    return files.config.get("model_type") == "eagle" and recognises_tensors(files)


def _load(files: HeadFiles) -> EagleHead:
    settings = Settings(files.config, str(files.directory / "config.json"))
    inner = settings.table("model")
    vocab = inner.whole("vocab_size")
    settings.refuse("truncated_vocab_size", "EAGLE heads with a draft vocabulary are not supported", vocab)
    return load_eagle(files, inner)


def _write(head: EagleHead, target: ForTarget) -> Written:
    if head.config.fusion_bias:
        raise HeadError(
            "the head's fusion has a bias, which vLLM leaves out without a word; save the head as 'eagle'"
        )
    config = {
        "architectures": ["EagleLlamaForCausalLM"],
        "model_type": "eagle",
        "model": eagle_settings(head),
        "truncated_vocab_size": head.config.vocab_size,
        "torch_dtype": str(head.fusion.weight.dtype).removeprefix("torch."),
    }
    return Written(config, eagle_tensors(head))


EAGLE_VLLM = Spelling("eagle-vllm", "eagle", _recognises, _load, _write)
