"""Trees of a fixed shape: who has how many children is known before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.errors import OptionError

Shape = tuple[int, ...]
"""Parents of nodes, −1 for a child of the last committed token; parents stand before their children."""

MOST = 4096
"""Most nodes of a shape."""


def parse_shape(text: str) -> Shape:
    """Read a shape: "4,2,1" is the children of every node of each level, "-1,-1,0" the parent of each node.

    OptionError for what is neither.
    """
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(
            f"tree={text!r} is not a shape; write the children of a node level by level (4,2,1), or the "
            "parent of every node (-1,-1,0)"
        ) from None
    shape = tuple(numbers) if numbers[0] < 0 else by_level(numbers)
    if len(shape) > MOST or not all(-1 <= parent < node for node, parent in enumerate(shape)):
        raise OptionError(
            f"tree={text!r} is not a shape: a node's parent is -1 or stands before it, every level has one "
            f"child a node or more, and there are {MOST} nodes at most"
        )
    return shape


def by_level(counts: Sequence[int]) -> Shape:
    """Return the shape in which every node of a level has as many children as `counts` says."""
    parents: list[int] = []
    level = [-1]
    for count in counts:
        if count < 1 or len(level) * count > MOST:
            return (MOST,)
        first = len(parents)
        parents += [node for node in level for _ in range(count)]
        level = list(range(first, len(parents)))
    return tuple(parents)


def comb(width: int, nodes: int) -> Shape:
    """Return a chain with `width` - 1 siblings beside its first node: `nodes` nodes in all."""
    width = min(width, nodes)
    return (*[-1] * width, *([0] if nodes > width else []), *range(width, nodes - 1))


def height(shape: Shape) -> int:
    """Return the depth of the deepest node."""
    return max(_depths(shape), default=0)


def within(shape: Shape, nodes: int, depth: int) -> Shape:
    """Return the first `nodes` nodes of a shape, level by level, of those no deeper than `depth`."""
    taken = sorted((d, node) for node, d in enumerate(_depths(shape)) if d <= depth)[:nodes]
    number = {-1: -1} | {node: index for index, (_, node) in enumerate(taken)}
    return tuple(number[shape[node]] for _, node in taken)


def _depths(shape: Shape) -> list[int]:
    depths: list[int] = []
    for parent in shape:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return depths
