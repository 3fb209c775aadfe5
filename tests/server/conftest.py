"""Nothing here runs without the extra `server`, which the extra `dev` includes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

for package in ("fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(package, reason="needs the extras server and dev")

from served import Served, serving, tiny_llm  # noqa: E402


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A tiny model with the suffix drafter behind a server."""
    with serving(tiny_llm()) as made:
        yield made
