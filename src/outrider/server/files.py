"""The page at `/`: files of one directory and nothing else, under a policy that lets nothing else in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""What files may be, by the ends of their names."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""What the browser lets the page do: its own files and this server, no inline code, no text as markup."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page_routes(directory: Path) -> list[Route]:
    """Return a route for each file of a directory, and `/` for its index.html; none where that is missing.

    The files are read now, and no path that a client sends is ever looked for on a disk. Links, directories
    and files of other kinds are left out.
    """
    found = {
        file.name: _answer(file.read_bytes(), KINDS[file.suffix])
        for file in sorted(directory.glob("*"))
        if file.suffix in KINDS and file.is_file() and not file.is_symlink()
    }
    if "index.html" not in found:
        return []
    return [Route(f"/{name}", answer) for name, answer in {"": found["index.html"], **found}.items()]


def _answer(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return Response(content, headers=HEADERS, media_type=kind)

    return answer
