"""Whether a head was made for the target at hand."""

from __future__ import annotations

from outrider.errors import HeadError
from outrider.heads.eagle import EagleConfig
from outrider.heads.eagle3 import Eagle3Config
from outrider.heads.medusa import MedusaConfig
from outrider.models.config import DecoderConfig

HeadConfig = Eagle3Config | EagleConfig | MedusaConfig


def check_fits(head: HeadConfig, target: DecoderConfig) -> None:
    """Check that a head can draft for a target; HeadError names what differs, with both numbers.

    Sizes can only tell that a head is wrong: one made for another target of the same sizes passes, and drafts
    badly. That costs time and never changes the text.
    """
    width = head.target_hidden_size if isinstance(head, Eagle3Config) else head.hidden_size
    for what, expected, found in (
        ("tokens in the vocabulary", head.vocab_size, target.vocab_size),
        ("numbers in a hidden state", width, target.hidden_size),
    ):
        if expected != found:
            raise HeadError(
                f"this head was made for another target: it expects {expected} {what}, "
                f"and the target at hand has {found}"
            )
    if isinstance(head, Eagle3Config):
        head.layers_of(target.layers)
