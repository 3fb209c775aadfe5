"""The `outrider` command: finds the command asked for; an error becomes one line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from outrider.cli.interrupts import INTERRUPTED
from outrider.errors import OutriderError, UnknownNameError

COMMANDS = {
    "demo": "outrider.cli.demo",
    "generate": "outrider.cli.generate",
    "chat": "outrider.cli.chat",
    "bench": "outrider.cli.bench",
    "plan": "outrider.cli.plan",
    "simulate": "outrider.cli.simulate",
    "train": "outrider.cli.train",
    "head": "outrider.cli.head",
    "audit": "outrider.cli.audit",
    "serve": "outrider.cli.serve",
}
"""Command to the module whose `app` implements it; imported when it is asked for."""


class LazyGroup(TyperGroup):
    """A group whose commands live in modules of their own."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the command's module; UnknownNameError for a name that is not in the table."""
        if cmd_name not in COMMANDS:
            raise UnknownNameError("command", cmd_name, COMMANDS)
        command = typer.main.get_command(importlib.import_module(COMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and remaining arguments."""
        return args[0], self.get_command(ctx, args[0]), args[1:]


app = typer.Typer(cls=LazyGroup, add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def outrider(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (also OUTRIDER_DEBUG=1).")
    ] = False,
) -> None:
    """Exact speculative decoding for open language models: the same text, sooner."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"outrider {installed('outrider')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str]) -> int:
    """Run the command line `arguments` (without the program's name) and return its exit code.

    0: done; 1: it failed; 2: the request is wrong; 130: interrupted. `--debug` may stand anywhere.
    """
    debug = "--debug" in arguments or os.environ.get("OUTRIDER_DEBUG", "") not in ("", "0")
    try:
        code = app(
            [word for word in arguments if word != "--debug"], prog_name="outrider", standalone_mode=False
        )
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader went away; nothing more can be said to it, also not by the interpreter at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _report(error, debug)


def _report(error: Exception, debug: bool) -> int:
    """Print one line about an error and return the exit code it stands for."""
    if isinstance(error, OutriderError):
        message, code = str(error), error.exit_code
    elif hasattr(error, "format_message"):  # what the option parser raises
        where = getattr(getattr(error, "ctx", None), "command_path", "outrider")
        message, code = f"{error.format_message()} (see {where} --help)", getattr(error, "exit_code", 2)
    else:
        hint = "" if debug else "; run again with --debug for the traceback"
        message, code = f"{type(error).__name__}: {error}{hint}", 1
    print("error:", " ".join(message.split()), file=sys.stderr)
    return code


def run() -> None:
    """Entry point of the `outrider` command."""
    sys.exit(main(sys.argv[1:]))
