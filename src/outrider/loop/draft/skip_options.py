"""What can be set about drafting without some layers, and how layers are written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from outrider.errors import OptionError
from outrider.loop.draft.lm import check_tree
from outrider.loop.draft.options import check_range

PASSES = 120


@dataclass(frozen=True)
class LayerSkipOptions:
    """What can be set about self-drafting; a value out of its range is an OptionError."""

    skip: str = ""
    """The layers that are left out, counted from 0 (8-14,20), or "none"; empty: they are searched."""
    search_passes: int = PASSES
    """Most sets of layers that the search measures, one pass of 192 rows each (at least 1)."""
    adapt: bool = False
    """Let every request begin with the set that promises most by what was accepted so far."""
    width: int = 1
    """Most nodes that one partial pass continues, and most children of a node (at least 1)."""
    tree: str = ""
    """A fixed shape, as for `lm`."""

    def __post_init__(self) -> None:
        check_tree("layerskip", self.width, self.tree)
        check_range("layerskip", "search_passes", self.search_passes, 1)
        if self.skip:
            parse_layers(self.skip)
            if self.adapt or self.search_passes != PASSES:
                raise OptionError(
                    "layerskip options 'adapt' and 'search_passes' are about the search; leave 'skip' out"
                )


def parse_layers(text: str) -> tuple[int, ...]:
    """Return the layers of a list such as 8-14,20, ascending; none for "none". OptionError otherwise."""
    if text.strip() == "none":
        return ()
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise OptionError(
                f"layerskip option 'skip' is {text!r}; write layers from 0 up and ranges of them, as in "
                '8-14,20, or "none"'
            )
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(found))


def checked(layers: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return layers that may be left out of so many; OptionError otherwise."""
    if layers and layers[-1] >= count:
        raise OptionError(
            f"layerskip option 'skip' names layer {layers[-1]}; the model's layers are 0 to {count - 1}"
        )
    if len(layers) == count:
        raise OptionError(f"layerskip option 'skip' names all {count} layers; leave one of them in at least")
    return layers
