"""What is simulated: an engine on a machine, the requests it is asked, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from outrider.bench.drafting import Drafting
from outrider.bench.traffic import Counts
from outrider.engine.scheduler import Limits
from outrider.planner.breaker import Breaker
from outrider.planner.latency import Latency
from outrider.planner.planner import Planner


@dataclass(frozen=True, slots=True)
class System:
    """An engine on a machine."""

    latency: Latency
    """What passes take, and what the planner goes by."""
    limits: Limits
    drafter: Drafting | None = None
    """None for plain decoding."""
    overhead: float = 0.0
    """Milliseconds of a step outside of passes and of the drafter, for each sequence that emits."""
    reading: Latency | None = None
    """What passes take whose rows only read, without logits; None: as long as those with logits."""

    stretch: float = 1.0
    """Mean time of passes over what the curves say, which are medians."""

    def milliseconds(self, rows: int, reading: int, keys: int, cached: int) -> float:
        """Return the time of a pass over `rows` that are scored and others that only read.

        `keys`, `cached`: what all of them look back at (see `Latency.at`).
        """
        if self.reading is None:
            return self.stretch * self.latency.at(rows + reading, keys, cached)
        time = self.latency.at(rows) + self.reading.at(rows + reading) - self.reading.at(rows)
        return self.stretch * (time + self.latency.looking(keys, cached))

    def planner(self) -> Planner:
        """Return the planner of a new engine."""
        if self.drafter is None:
            return Planner(0)
        return Planner(self.drafter.budget, None if self.drafter.free else self.latency)


@dataclass(frozen=True, slots=True)
class Job:
    """A request: tokens of its prompt, and tokens that it is answered with."""

    prompt: int
    output: int
    most: int | None = None
    """Tokens that it may be answered with: nobody knows beforehand that it ends earlier. None: `output`."""

    def __post_init__(self) -> None:
        assert self.prompt >= 1
        assert 1 <= self.output <= (self.most or self.output)


@dataclass(slots=True)
class Served:
    """A request on its way; times in milliseconds from the start."""

    number: int
    job: Job
    arrived: float
    pending: int
    cached: int = 0
    emitted: int = 0
    first: tuple[float, int] = (0.0, 0)
    """When the first tokens came, and how many."""
    last: float = 0.0
    breaker: Breaker = field(default_factory=Breaker)
    # What `share_rows` asks of a request besides:
    most_rows: int = 1
    priority: int = 0

    @property
    def sequence(self) -> Served:
        """Itself: here a request and its sequence are one."""
        return self

    @property
    def room(self) -> int:
        """How many more tokens it may emit."""
        return (self.job.most or self.job.output) - self.emitted

    @property
    def time_to_first_token(self) -> float:
        """Milliseconds from arrival to the first tokens."""
        return self.first[0] - self.arrived

    @property
    def time_per_token(self) -> float | None:
        """Milliseconds a token after the first ones; None where there were no others."""
        later = self.emitted - self.first[1]
        return (self.last - self.first[0]) / later if later else None


@dataclass(slots=True)
class Simulated(Counts):
    """All requests of a run in the order of their arrival, and what its steps did."""

    served: list[Served] = field(default_factory=list)
    milliseconds: float = 0.0
    in_passes: float = 0.0
    """Milliseconds of all passes."""
