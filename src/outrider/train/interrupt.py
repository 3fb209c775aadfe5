"""Ctrl-C while a run learns: the step at hand is finished, so that what is saved is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether someone has asked to stop."""

    def __init__(self) -> None:
        self.wanted = False


@contextmanager
def stopping() -> Iterator[Stop]:
    """Take the first Ctrl-C, or a request to terminate, as a wish to stop; a second one interrupts at once.

    Outside of the main thread signals are nobody's business, and nothing is changed.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def take(number: int, frame: FrameType | None) -> None:
        if stop.wanted:
            raise KeyboardInterrupt
        stop.wanted = True

    before = {number: signal.signal(number, take) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
