"""A command that takes every option once, where it has one value."""

from __future__ import annotations

from collections import Counter
from typing import Any

from typer.core import TyperCommand

from outrider.errors import OptionError


class Command(TyperCommand):
    """Refuses an option given twice: the parser alone would take the last and say nothing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line; OptionError for an option that is given again."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for param, count in Counter(given).items():
            once = param.param_type_name == "option" and not param.multiple and param.name != "help"
            if once and count > 1:
                names = "/".join([*param.opts, *param.secondary_opts])
                raise OptionError(
                    f"{names} is given {count} times; give it once (see {ctx.command_path} --help)"
                )
        return list(super().parse_args(ctx, args))
