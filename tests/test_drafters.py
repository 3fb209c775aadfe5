"""Names of drafters: what they mean, and what is said where they mean nothing."""

from __future__ import annotations

import pytest

from outrider.drafters import DrafterSpec, parse_drafter
from outrider.errors import OptionError, UnknownNameError


def test_a_name_says_which_drafter_its_parts_and_its_model() -> None:
    assert parse_drafter("suffix") == DrafterSpec("suffix")
    assert parse_drafter("lm:some/dir:x") == DrafterSpec("lm", (), "some/dir:x")
    assert parse_drafter("merged") == DrafterSpec("merged")
    assert parse_drafter("merged:suffix+recycle") == DrafterSpec("merged", ("suffix", "recycle"))
    assert parse_drafter("merged:suffix+lm:a+b") == DrafterSpec("merged", ("suffix", "lm"), "a+b")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("lm", "lm:PATH"),
        ("suffix:x", "takes no argument"),
        ("merged:suffix", "two or more"),
        ("merged:suffix+suffix", "two or more"),
        ("merged:suffix+", "missing at the end"),
        ("merged:suffix+none", "cannot share a tree"),
        ("merged:suffix+lm", "lm:PATH"),
        ("merged:suffix:x+recycle", "takes no argument"),
    ],
)
def test_a_name_that_does_not_fit_is_refused_with_what_to_write(spec: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        parse_drafter(spec)


@pytest.mark.parametrize("spec", ["sufix", "merged:sufix+recycle"])
def test_an_unknown_drafter_is_refused_with_the_near_ones(spec: str) -> None:
    with pytest.raises(UnknownNameError, match="suffix"):
        parse_drafter(spec)
