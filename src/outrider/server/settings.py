"""What whoever runs a server decides."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.errors import OptionError
from outrider.sampling import checks


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and keys of one server; OptionError for a value out of its range."""

    name: str
    """The model's name for clients."""
    api_keys: tuple[str, ...] = ()
    """One of them is needed for everything but `/health` and `/ready` and the page; none: for nothing."""
    most_body: int = 8 << 20
    """Most bytes of a body."""
    timeout: float = 600.0
    """Seconds after which an answer ends with what it has, its time in the queue included."""
    body_timeout: float = 30.0
    """Seconds in which a body has to arrive."""
    stall_timeout: float = 60.0
    """Seconds for which a client may take nothing of a stream."""
    drain: float = 30.0
    """Seconds for which requests may go on after the server was told to end."""
    log_text: bool = False
    """Put prompts and answers into the log."""

    def __post_init__(self) -> None:
        if not self.name:
            raise OptionError("the model's name for clients is empty; give one")
        bad = next((key for key in self.api_keys if not key or not key.isascii() or key.strip() != key), None)
        if bad is not None:
            raise OptionError("an API key is empty, or holds spaces or letters that no header can carry")
        checks.whole("most_body", self.most_body, "a number of bytes >= 1", 1)
        for option in ("timeout", "body_timeout", "stall_timeout"):
            value = getattr(self, option)
            checks.number(option, value, "seconds, a number above 0", lambda seconds: seconds > 0)
        checks.number("drain", self.drain, "seconds, a number >= 0", lambda seconds: seconds >= 0)
