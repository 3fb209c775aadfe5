"""What all requests of one server share."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from outrider.engine.engine import Engine
from outrider.engine.handle import Handle
from outrider.engine.service import Service
from outrider.llm import LLM
from outrider.server.metrics import Metrics
from outrider.server.settings import Settings
from outrider.server.tokens import TokenTexts


@dataclass(eq=False, slots=True)
class Live:
    """A request on its way: what it holds of the engine."""

    handles: list[Handle] = field(default_factory=list)
    arrived: float = field(default_factory=time.perf_counter)

    def cancel(self) -> None:
        """End what has not ended."""
        for handle in self.handles:
            handle.cancel()


@dataclass(eq=False, slots=True)
class Site:
    """One loaded model, the engine that runs it, and what is known of its requests."""

    llm: LLM
    engine: Engine
    service: Service
    settings: Settings
    metrics: Metrics
    texts: TokenTexts
    fingerprint: str
    started: int = field(default_factory=lambda: int(time.time()))
    draining: bool = False
    """No new requests are taken, since the server is about to end."""
    live: set[Live] = field(default_factory=set)
    compiling: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "outrider-grammar"))
    """Where grammars are compiled: one at a time, beside the event loop."""

    def cancel_all(self) -> None:
        """End every request."""
        for live in list(self.live):
            live.cancel()

    def close(self) -> None:
        """End every request and all threads."""
        self.draining = True
        self.service.close()
        self.compiling.shutdown(wait=False, cancel_futures=True)


def site_of(llm: LLM, engine: Engine, settings: Settings, version: str) -> Site:
    """Return a site whose engine runs on a thread of its own from now on."""
    return Site(
        llm=llm,
        engine=engine,
        service=Service(engine),
        settings=settings,
        metrics=Metrics(engine, settings.name),
        texts=TokenTexts(llm.model.tokenizer),
        fingerprint=f"outrider-{version}",
    )
