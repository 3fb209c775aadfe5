"""A name that stands in no table: the near ones and all known ones are told."""

from __future__ import annotations

import pytest

from outrider.errors import UnknownNameError, near_names
from outrider.registry import DRAFTERS

KNOWN = ("none", "suffix", "recycle", "llama.cpp", "max_nodes", "min_match")


@pytest.mark.parametrize(
    ("name", "near"),
    [("SUFFIX", "suffix"), ("sufix", "suffix"), ("LlamaCpp", "llama.cpp"), ("Max-Nodes", "max_nodes")],
)
def test_case_and_joining_signs_do_not_hide_a_near_name(name: str, near: str) -> None:
    """SUFFIX once was like nothing, since letters were compared with their case."""
    assert near_names(name, KNOWN)[0] == near


def test_the_message_names_the_near_and_all_known_names() -> None:
    """A guess once hid the list, so whoever meant something else was left with a wrong hint."""
    assert str(UnknownNameError("drafter", "Sufix", ("none", "suffix"))) == (
        "unknown drafter 'Sufix'; did you mean 'suffix'? known: none, suffix"
    )
    assert str(UnknownNameError("drafter", "xyz", ("none", "suffix"))) == (
        "unknown drafter 'xyz'; known: none, suffix"
    )


def test_what_is_no_text_is_no_name() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown drafter \['suffix'\]; did you mean 'suffix'"):
        DRAFTERS[["suffix"]]  # type: ignore[index]
