"""Runs a site under uvicorn, and ends it without dropping what is on its way."""

from __future__ import annotations

import socket
import time
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from outrider.errors import OptionError
from outrider.server import log
from outrider.server.app import create_app
from outrider.server.site import Site


class Server(uvicorn.Server):
    """Ends in two steps: at the first signal it takes no more requests and lets those on their way end.

    A second signal, or the end of `Settings.drain`, ends them at once. `/ready` says so from the first on.
    """

    def __init__(self, config: uvicorn.Config, site: Site) -> None:
        super().__init__(config)
        self._site = site
        self._until: float | None = None

    def drain(self) -> None:
        """Begin to end; when called again, end at once."""
        if self._until is None:
            self._site.draining = True
            self._until = time.monotonic() + self._site.settings.drain
            log.note("draining", {"requests": len(self._site.live)})
        else:
            self._until = 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Do as `drain` does."""
        self.drain()

    async def on_tick(self, counter: int) -> bool:
        """Tell whether it is time to stop listening; asked ten times a second."""
        if self._until is not None:
            over = time.monotonic() >= self._until
            if over:
                self._site.cancel_all()
            self.should_exit = self.should_exit or over or not self._site.live
        return await super().on_tick(counter)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there, port 0 on a free one; OptionError where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise OptionError(f"cannot listen on {host}, port {port}: {error}; choose others") from error


def make_server(app: ASGIApp, site: Site) -> Server:
    """Return a server that is ready to run."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=5,
    )
    return Server(config, site)


def serve(site: Site, listening: socket.socket) -> None:
    """Serve until a signal ends it."""
    host, port = listening.getsockname()[:2]
    named = f"[{host}]" if ":" in host else host
    log.note("listening", {"url": f"http://{named}:{port}/v1", "model": site.settings.name})
    make_server(create_app(site), site).run(sockets=[listening])
    log.note("ended", {})
