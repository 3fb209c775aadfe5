"""From a head's files to one that is ready to draft for a target."""

from __future__ import annotations

from outrider import native
from outrider.errors import CapabilityError, HeadError
from outrider.heads.eagle import EagleHead
from outrider.heads.eagle3 import Eagle3Head
from outrider.heads.exchange import load_head
from outrider.heads.fit import check_fits
from outrider.heads.medusa import MedusaHeads
from outrider.heads.passes import HeadPass, ReadyHead, TorchHeadPass
from outrider.models.base import NORMED, CapturingTarget, LoadedModel, capturing
from outrider.models.config import DecoderConfig
from outrider.shipped import head_directory

Ready = ReadyHead | MedusaHeads
"""What a drafter with a head is made of."""


def ready_head(drafter: str, path: str, target: LoadedModel, *, weights: str = "auto") -> Ready:
    """Load the head of a drafter for a target, in any spelling that `heads.formats` reads.

    HeadError for files that hold no head of its kind, or one for another target; CapabilityError for a target
    that does not show its states.
    """
    able = capturing(target.target, (), drafter)
    config: DecoderConfig | None = getattr(able, "config", None)
    if config is None:
        raise CapabilityError("heads draft for models that run on the lean decoder; this one does not")
    head = load_head(head_directory(path)).head
    fitting = "medusa" if isinstance(head, MedusaHeads) else "eagle"
    if fitting != drafter:
        raise HeadError(f"{path} holds a head of the kind {head.kind}; write {fitting}:{path}")
    check_fits(head.config, config)
    if isinstance(head, MedusaHeads):
        return head
    features = head.config.layers_of(able.layers) if isinstance(head, Eagle3Head) else (NORMED,)
    ids = None
    if isinstance(head, Eagle3Head) and head.config.draft_vocab_size < able.vocab_size:
        ids = head.target_ids
    passes = head_passes(head, able, weights=weights)
    whole = getattr(able, "weight_bytes", 0)
    return ReadyHead(
        passes,
        head.config.layer.hidden_size,
        able.vocab_size,
        ids,
        able.context_limit,
        features,
        min(passes.weight_bytes / whole, 1.0) if whole else 0.0,
    )


def head_passes(head: Eagle3Head | EagleHead, target: CapturingTarget, *, weights: str = "auto") -> HeadPass:
    """Return what runs a head beside a target: the core for EAGLE-3 on its own passes, else PyTorch.

    `weights` as they were asked for; with "auto" or "file" a head has 8 bits beside a target of quantised
    blocks, else 16, so that its passes stay short beside the target's.
    """
    if isinstance(head, Eagle3Head) and native.why_missing() is None:
        from outrider.native.decoder import NativeDecoder
        from outrider.native.eagle3 import native_head

        if isinstance(target, NativeDecoder):
            usual = "int8" if target.weights.startswith("file") else "fp16"
            return native_head(head, target, weights=usual if weights in ("auto", "file") else weights)
    return TorchHeadPass(head, embed=target.embed, target_head=target.head)
