"""From a head's files to one that is ready to draft for a target."""

from __future__ import annotations

from outrider.errors import CapabilityError
from outrider.heads.eagle import EagleHead
from outrider.heads.eagle3 import Eagle3Head
from outrider.heads.exchange import load_head
from outrider.heads.fit import check_fits
from outrider.heads.passes import HeadPass, ReadyHead, TorchHeadPass
from outrider.models.base import NORMED, CapturingTarget, LoadedModel, capturing
from outrider.models.config import DecoderConfig


def ready_head(path: str, target: LoadedModel, *, weights: str = "auto") -> ReadyHead:
    """Load an EAGLE head for a target, in any spelling that `heads.formats` reads.

    HeadError for files that are no head, or one for another target; CapabilityError for a target that does
    not show its states.
    """
    able = capturing(target.target, (), "eagle")
    config: DecoderConfig | None = getattr(able, "config", None)
    if config is None:
        raise CapabilityError("heads draft for models that run on the lean decoder; this one does not")
    head = load_head(path).head
    if not isinstance(head, Eagle3Head | EagleHead):
        raise CapabilityError(f"{path} holds Medusa heads; write medusa:{path}")
    check_fits(head.config, config)
    features = head.config.layers_of(able.layers) if isinstance(head, Eagle3Head) else (NORMED,)
    run = head_pass(head, able, weights=weights)
    whole = getattr(able, "weight_bytes", 0)
    return ReadyHead(
        run,
        head.config.layer.hidden_size,
        able.vocab_size,
        able.context_limit,
        features,
        min(run.weight_bytes / whole, 1.0) if whole else 0.0,
    )


def head_pass(head: Eagle3Head | EagleHead, target: CapturingTarget, *, weights: str = "auto") -> HeadPass:
    """Return what runs a head beside a target."""
    return TorchHeadPass(head, embed=target.embed, target_head=getattr(target, "head", None))
