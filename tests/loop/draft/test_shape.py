"""Shapes of trees: read from text, cut to a budget and a depth, refused where they are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import OptionError
from outrider.loop.draft.shape import Shape, by_level, comb, height, parse_shape, within


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    return tuple(draw(st.integers(-1, node - 1)) for node in range(draw(st.integers(0, 15))))


def test_a_shape_is_written_level_by_level_or_parent_by_parent() -> None:
    assert parse_shape("2,2,1") == (-1, -1, 0, 0, 1, 1, 2, 3, 4, 5)
    assert parse_shape("-1, -1, 0") == (-1, -1, 0)
    assert parse_shape("3") == (-1, -1, -1)


@pytest.mark.parametrize("text", ["", "a", "2,0", "2,-1", "-1,1", "-1,-2", "0", "9,9,9,9,9", "-1,0,5"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="is not a shape"):
        parse_shape(text)


@given(st.integers(1, 8), st.integers(1, 20))
def test_a_comb_is_a_chain_with_siblings_beside_its_first_node(width: int, nodes: int) -> None:
    shape = comb(width, nodes)
    assert len(shape) == nodes
    assert shape.count(-1) == min(width, nodes)
    assert height(shape) == nodes - min(width, nodes) + 1


@given(shapes(), st.integers(0, 15), st.integers(0, 6))
def test_a_cut_shape_holds_the_upper_levels_first(shape: Shape, nodes: int, depth: int) -> None:
    cut = within(shape, nodes, depth)
    fitting = sum(height_of(shape, node) <= depth for node in range(len(shape)))
    assert len(cut) == min(nodes, fitting)
    assert all(-1 <= parent < node for node, parent in enumerate(cut))
    levels = [height_of(cut, node) for node in range(len(cut))]
    assert levels == sorted(levels) == sorted(height_of(shape, n) for n in range(len(shape)))[: len(cut)]


def height_of(shape: Shape, node: int) -> int:
    return 1 + (height_of(shape, shape[node]) if shape[node] >= 0 else 0)


def test_levels_without_children_or_without_end_are_no_shape() -> None:
    assert not all(parent < node for node, parent in enumerate(by_level([2, 0])))
    assert not all(parent < node for node, parent in enumerate(by_level([100, 100])))
