"""Options of drafters: frozen dataclasses whose fields are the options, read by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from outrider.errors import OptionError, UnknownNameError

Options = TypeVar("Options")


def read_options(kind: type[Options], drafter: str, given: Mapping[str, Any]) -> Options:
    """Make the options of a drafter; fields that are not given keep their defaults.

    A text stands for the number or the truth value in it. OptionError for a name that is not a field, and for
    a value of another type than the field's default.
    """
    defaults = {option.name: option.default for option in fields(kind)}  # type: ignore[arg-type]
    values = {}
    for name, value in given.items():
        if name not in defaults:
            raise OptionError(str(UnknownNameError(f"{drafter} option", name, defaults)))
        values[name] = _read(f"{drafter} option {name!r}", value, defaults[name])
    return kind(**values)


def no_options(drafter: str, given: Mapping[str, Any]) -> None:
    """Refuse options for a drafter that has none."""
    if given:
        raise OptionError(f"the drafter {drafter!r} takes no options; remove {', '.join(map(repr, given))}")


def check_range(drafter: str, name: str, value: float, least: float, most: float | None = None) -> None:
    """Raise OptionError where a value lies outside its range."""
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"between {least} and {most}"
        raise OptionError(f"{drafter} option {name!r} must be {bounds}, not {value}")


def _read(what: str, value: Any, default: Any) -> Any:
    if isinstance(default, str):
        return str(value)
    if isinstance(default, bool):
        known = {"true": True, "false": False, "True": True, "False": False, True: True, False: False}
        if not isinstance(value, bool | str) or value not in known:
            raise OptionError(f"{what} must be true or false, not {value!r}")
        return known[value]
    whole = isinstance(default, int)
    try:
        if isinstance(value, str):
            value = int(value) if whole else float(value)
    except ValueError:
        pass
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise OptionError(f"{what} must be {'a whole number' if whole else 'a number'}, not {value!r}")
    return value
