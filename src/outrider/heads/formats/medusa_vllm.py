"""Medusa heads as vLLM serves them, with or without a draft vocabulary (`token_map`).

Names: vllm-project/vllm (vllm/model_executor/models/medusa.py, vllm/transformers_utils/configs/medusa.py).
"""

from __future__ import annotations

from outrider.heads.formats.settings import Settings
from outrider.heads.formats.spelling import ForTarget, HeadFiles, Spelling, Written
from outrider.heads.formats.tensors import filled, spelled, without_prefix
from outrider.heads.medusa import MedusaConfig, MedusaHeads
from outrider.heads.vocab import checked_ids

_MAP = "token_map"


def _recognises(files: HeadFiles) -> bool:
    return files.config.get("model_type") == "medusa"


def _load(files: HeadFiles) -> MedusaHeads:
    without_prefix(files, "medusa_heads.")
    settings = Settings(files.config, str(files.directory / "config.json"))
    vocab = settings.whole("vocab_size")
    draft = settings.whole("truncated_vocab_size", vocab)
    config = MedusaConfig(
        hidden_size=settings.whole("hidden_size"),
        vocab_size=vocab,
        heads=settings.whole("num_heads"),
        blocks=settings.whole("num_hidden_layers"),
        block_bias=settings.flag("medusa_fc_bias", False),
        shared_output=settings.flag("original_lm_head", False),
        draft_vocab_size=None if draft == vocab else draft,
    )
    if config.heads * config.blocks > len(files.tensors):
        raise settings.error(
            f"{config.heads} heads of {config.blocks} blocks are more than the {len(files.tensors)} tensors "
            f"in {files.weights}"
        )
    token_map = files.tensors.pop(_MAP, None)
    if (token_map is None) != (config.draft_vocab_size is None):
        raise settings.error(
            f"truncated_vocab_size is {draft} of {vocab} tokens, but {files.weights} "
            f"{'lacks' if token_map is None else 'has'} a token_map; the two go together"
        )
    ids = None
    if token_map is not None:
        ids = checked_ids(token_map, vocab)
        _cut_to(files, settings, ids.tolist(), vocab)
    if config.shared_output and "lm_head.weight" not in files.tensors and _first(0) in files.tensors:
        files.tensors["lm_head.weight"] = files.tensors.pop(_first(0))
    return filled(files, lambda: MedusaHeads(config, ids), _names(config))


def _cut_to(files: HeadFiles, settings: Settings, ids: list[int], vocab: int) -> None:
    """Cut output matrices of all tokens to those of the draft vocabulary, as vLLM does when it reads them."""
    for name, tensor in files.tensors.items():
        if name.startswith("lm_head") and tensor.dim() == 2 and tensor.shape[0] == vocab:
            files.tensors[name] = tensor[ids]
            files.notes.append(f"{name} holds all {vocab} tokens; only those of the token_map are kept")


def _first(head: int) -> str:
    return f"lm_heads.{head}.weight"


def _write(heads: MedusaHeads, target: ForTarget) -> Written:
    config = heads.config
    written = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "truncated_vocab_size": config.draft_vocab_size or config.vocab_size,
        "num_heads": config.heads,
        "num_hidden_layers": config.blocks,
        "medusa_fc_bias": config.block_bias,
        "original_lm_head": config.shared_output,
        "max_paths": 64,
        "topk": 10,
        "torch_dtype": str(next(heads.parameters()).dtype).removeprefix("torch."),
    }
    tensors = spelled(heads, _names(config))
    if heads.target_ids is not None:
        tensors[_MAP] = heads.target_ids
    return Written(written, tensors)


def _names(config: MedusaConfig) -> dict[str, str]:
    names = {}
    for head in range(config.heads):
        for block in range(config.blocks):
            for part in ("weight", "bias") if config.block_bias else ("weight",):
                names[f"blocks.{head}.layers.{block}.{part}"] = f"blocks.{head}.{block}.{part}"
        if not config.shared_output:
            names[_first(head)] = f"outputs.{head}.weight"
    if config.shared_output:
        names["lm_head.weight"] = "outputs.0.weight"
    return names


MEDUSA_VLLM = Spelling("medusa-vllm", "medusa", _recognises, _load, _write)
