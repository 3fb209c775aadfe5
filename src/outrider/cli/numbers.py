"""Lists of numbers, as options take them."""

from __future__ import annotations

from outrider.cli.bench_out import listed_names
from outrider.errors import OptionError


def whole_numbers(option: str, text: str) -> list[int]:
    """Return the whole numbers above 0 of a list with commas, each once; OptionError for anything else."""
    return [int(number) for number in _numbers(option, text, whole=True)]


def numbers(option: str, text: str) -> list[float]:
    """Return the numbers above 0 of a list with commas, each once; OptionError for anything else."""
    return _numbers(option, text, whole=False)


def number(option: str, word: str) -> float:
    """Return one number above 0; OptionError for anything else."""
    return _number(option, word, whole=False)


def _numbers(option: str, text: str, *, whole: bool) -> list[float]:
    found = list(dict.fromkeys(_number(option, word, whole=whole) for word in listed_names(text)))
    if not found:
        raise OptionError(f"{option} {text!r} holds no number; write one or several, as in 1,2,4")
    return found


def _number(option: str, word: str, *, whole: bool) -> float:
    try:
        found = int(word) if whole else float(word)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise OptionError(f"{option}: {word!r} is not a {'whole ' * whole}number above 0")
    return found
