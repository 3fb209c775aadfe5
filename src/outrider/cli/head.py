"""`outrider head`: what a trained head's files hold, and the same head in the files of another program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.cli import options
from outrider.cli.command import Command
from outrider.errors import OptionError

if TYPE_CHECKING:
    from outrider.heads.exchange import LoadedHead

app = typer.Typer(add_completion=False, rich_markup_mode=None)

DTYPES = ("fp32", "fp16", "bf16")


@app.command(cls=Command)
def head(
    head: Annotated[str, typer.Argument(metavar="HEAD", help="A head's directory, or 'demo'.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write the head there, in --format.")
    ] = None,
    spelling: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="In whose files: specforge, sglang, speculators, eagle, eagle-vllm, medusa, medusa-pt or "
            "medusa-vllm (default: that of HEAD).",
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype", metavar="NAME", help="Type of the numbers: fp32, fp16, bf16 (default: as is)."
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="MODEL",
            help="The model it drafts for, as some formats name it.",
        ),
    ] = "",
    as_json: options.Json = False,
) -> None:
    """Show what a head is made of, or write it in the files that another program reads."""
    if out is None and (spelling is not None or target):
        raise OptionError("--format and --target are about a head that is written; name a place with --out")
    if dtype is not None and dtype not in DTYPES:
        raise OptionError(f"--dtype {dtype!r}: write {', '.join(DTYPES)}")

    import torch

    from outrider.cli import terminal
    from outrider.cli.documents import one_line
    from outrider.heads.exchange import load_head, save_head
    from outrider.shipped import head_directory

    types = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    loaded = load_head(head_directory(head), dtype=None if dtype is None else types[dtype])
    document = _document(loaded)
    if out is not None:
        architecture = ""
        if target:
            from outrider.models.checkpoint import open_checkpoint

            architecture = str((open_checkpoint(target).values.get("architectures") or [""])[0])
        chosen = spelling or loaded.spelling
        save_head(loaded.head, out, chosen, target=target, target_architecture=architecture)
        document["written"] = {"directory": str(out), "format": chosen}
    if as_json:
        print(one_line(document), flush=True)
        return
    console = terminal.console()
    for name, value in _lines(document):
        console.print(f"{name}: {value}", soft_wrap=True)


def _lines(value: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every field by its path, and what is in it; empty ones are left out."""
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _lines(inner, f"{before}{name}.")
        elif isinstance(inner, list | tuple):
            if inner:
                yield f"{before}{name}", ", ".join(map(str, inner))
        elif inner is not None:
            yield f"{before}{name}", f"{inner:g}" if isinstance(inner, float) else inner


def _document(loaded: LoadedHead) -> dict[str, Any]:
    """Return what is known of a head."""
    from dataclasses import asdict

    parameters = list(loaded.head.parameters())
    return {
        "kind": loaded.head.kind,
        "format": loaded.spelling,
        "parameters": sum(p.numel() for p in parameters),
        "dtype": str(parameters[0].dtype).removeprefix("torch."),
        "shape": asdict(loaded.head.config),
        "notes": list(loaded.notes),
    }
