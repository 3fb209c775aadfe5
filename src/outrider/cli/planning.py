"""What `outrider plan` and `outrider simulate` share: how often drafts are kept, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.errors import CapabilityError, OptionError

if TYPE_CHECKING:
    from outrider.bench.acceptance import Counted
    from outrider.draft_heads import Ready
    from outrider.models.base import LoadedModel
    from outrider.planner.latency import Latency

Acceptance = Annotated[
    str | None,
    typer.Option(
        "--acceptance",
        metavar="A,B,…",
        help="Chance that a drafted token is kept, by depth; the last holds for all deeper ones. "
        "Chances of several children of a node are joined by slashes (0.6/0.2).",
    ),
]
Source = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="RESULT.json", help="Take it from a result of outrider bench run instead."
    ),
]


def acceptance_of(written: str | None, source: Path | None, drafter: str) -> Counted:
    """Return what one of two options tells of a drafter; OptionError for both or none of them."""
    from outrider.bench.acceptance import Counted, counted_in, parse_acceptance

    if written is not None and source is None:
        return Counted(parse_acceptance(written), 1.0, 0.0, 0.0)
    if source is not None and written is None:
        return counted_in(source, drafter)
    raise OptionError("give one of --acceptance (as in 0.7) and --from (a result of outrider bench run)")


def draft_latency(draft: LoadedModel | Ready) -> Latency:
    """Return the latency curve of what drafts: a model's is kept on disk, a head's is measured each time.

    CapabilityError for Medusa heads, which make one pass for all the tokens of a draft.
    """
    from outrider.heads.passes import ReadyHead
    from outrider.models.base import LoadedModel
    from outrider.planner.measured import measure_latency
    from outrider.pricing import measured_latency

    if isinstance(draft, LoadedModel):
        return measured_latency(draft).get()
    if isinstance(draft, ReadyHead):
        return measure_latency(draft)
    raise CapabilityError(
        "plans are for drafters that make a pass for each token, and Medusa heads make one for all; "
        "measure them with outrider bench"
    )
