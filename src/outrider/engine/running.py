"""The requests that hold a cache: who gets one, who has to give it back, and what is kept for later."""

from __future__ import annotations

import time
from collections.abc import Iterable

from outrider.cache.prefix import PrefixStore
from outrider.engine.holding import Holdings, growth, held, own_bytes, stored
from outrider.engine.request import Request
from outrider.engine.scheduler import Limits, Queue, urgency
from outrider.loop.draft.base import Drafter
from outrider.loop.draft.held import shared
from outrider.models.base import Target

SMOOTHING = 0.2
"""What the newest request counts for in the mean time that one takes."""


class Running:
    """Holds running requests within `limits`, and lets their texts begin with stored prefixes."""

    def __init__(
        self, target: Target, drafter: Drafter, limits: Limits, prefixes: PrefixStore | None
    ) -> None:
        self._drafter, self._limits, self._prefixes = drafter, limits, prefixes
        self._holdings = Holdings(target, drafter.caches)
        self.requests: list[Request] = []
        self.seconds_a_request: float | None = None
        """Mean time from one end of a request to the next one, lately; None until one has ended."""
        self._last_end: float | None = None

    @property
    def places(self) -> int:
        """How many more requests may run, going by their number."""
        return self._limits.running - len(self.requests)

    def nbytes(self) -> int:
        """Return the bytes of all caches and stored prefixes."""
        stored = 0 if self._prefixes is None else self._prefixes.nbytes
        return stored + self._own_bytes(self.requests)

    def may_place(self, request: Request) -> bool:
        """Tell whether a place is free, or held by a less urgent request."""
        return self.places > 0 or any(_yields(other, request) for other in self.requests)

    def is_reading_for(self, request: Request) -> bool:
        """Tell whether another request is reading a text that this one begins with, in pages to be stored."""
        if self._prefixes is None or request.sequence.wants_prompt_rows:
            return False
        slots, mine = self._prefixes.slots, request.sequence.tokens[:-1]
        most = 0
        for other in self.requests:
            sequence = other.sequence
            if sequence.pending > 1 and not other.paused:
                alike = shared(mine, sequence.tokens[: sequence.prompt_length])
                most = max(most, alike // slots * slots)
        return most > self._prefixes.match(mine)

    def make_place(self, request: Request, budget: int, waiting: Queue) -> bool:
        """Tell whether a request may run now; less urgent ones give up their place for it, if that helps.

        There must be room for all of its text, and for the next page of everyone else.
        """
        staying = [other for other in self.requests if not _yields(other, request)]
        limited = self._limits.cache_bytes is not None
        own = self._holdings.bytes_for(request, budget) if limited else 0
        ahead = budget + max(request.sequence.cache.page_slots, 1)
        if len(staying) >= self._limits.running:
            return False
        if self._limits.cache_bytes is not None:
            held = self._own_bytes(staying) + self._growth(staying, ahead)
            if held + own > self._limits.cache_bytes:
                return False
        yielding = [other for other in self.requests if _yields(other, request)]
        yielding.sort(key=_least_urgent_last)
        while self.places <= 0 or self._over(own + self._growth(self.requests, ahead)) > 0:
            if self.places > 0 and self._free(self._over(own + self._growth(self.requests, ahead))):
                continue
            if not yielding:
                return False
            self.preempt(yielding.pop(), waiting)
        return True

    def admit(self, request: Request) -> None:
        """Give a request its caches, which begin with what is stored of its text, and the drafter's state."""
        sequence = request.sequence
        self.requests.append(request)  # from here on `release` frees what it holds, whatever is interrupted
        caches = self._holdings.begin(request, self._prefixes)
        sequence.told = len(sequence.tokens)
        given = (caches,) if caches else ()  # a drafter without caches need not know of them
        sequence.draft_state = self._drafter.open(sequence.tokens, sequence.tenant, *given)
        request.opened = True

    def make_room(self, chosen: list[Request], budget: int, waiting: Queue) -> list[Request]:
        """Return those of the chosen who find room for their next pass; the least urgent give up theirs."""
        if self._limits.cache_bytes is None:
            return chosen
        while (over := self._over(self._growth(chosen, budget))) > 0:
            if self._free(over):
                continue
            if len(self.requests) == 1:  # it fits alone, without what is stored: checked when it came
                if not self._give_up_leases(self.requests[0]):
                    break
                continue
            least = max(self.requests, key=_least_urgent_last)
            self.preempt(least, waiting)
            chosen = [request for request in chosen if request is not least]
        return chosen

    def preempt(self, request: Request, waiting: Queue) -> None:
        """Take back what a request holds; it waits, and reads its text again when there is room."""
        self._let_go(request)
        waiting.add(request)

    def release(self, request: Request) -> None:
        """Free what a request holds, and keep the pages of its text; nothing where that was done.

        An interrupt leaves it to be done again.
        """
        if any(other is request for other in self.requests):
            # No cache holds the last token, unless an interrupted draft of the target itself left it there.
            self._store(request, len(request.sequence.tokens) - 1)
            self._let_go(request)
            now = time.monotonic()
            if self._last_end is not None:
                took, mean = now - self._last_end, self.seconds_a_request
                self.seconds_a_request = took if mean is None else mean + SMOOTHING * (took - mean)
            self._last_end = now

    def store_prompt(self, request: Request) -> None:
        """Keep the pages of what a request has read of its prompt."""
        self._store(request, request.sequence.prompt_length)

    def _store(self, request: Request, most: int) -> None:
        """Keep the pages of the first `most` tokens of a request, as far as its caches hold them."""
        if self._prefixes is None or request.sequence.error is not None:
            return
        for cache, lease, count in stored(request, most):
            pages = cache.pages(count)
            copied = pages[len(lease.nodes) :] if cache.copies_pages else ()
            if self._over(sum(page.nbytes for page in copied)) <= 0:
                self._prefixes.add(lease, request.sequence.tokens, pages)

    def _let_go(self, request: Request) -> None:
        if request.opened:
            self._drafter.close(request.sequence.draft_state)
            request.opened = False
        request.sequence.cache.keep(())  # an interrupted pass has left its rows pending
        request.sequence.cache.truncate(0)
        self._give_up_leases(request)
        request.lease, request.drafts = None, []
        self.requests = [other for other in self.requests if other is not request]

    def _growth(self, requests: Iterable[Request], budget: int) -> int:
        """Return by how many bytes the next pass makes these requests' caches grow at most."""
        return sum(growth(request, budget) for request in requests)

    def _own_bytes(self, requests: Iterable[Request]) -> int:
        """Return the bytes of these requests' caches, without those that the store holds and counts."""
        return sum(own_bytes(request) for request in requests)

    def _over(self, more: int) -> int:
        """Return by how many bytes `more` of them would pass the limit."""
        if self._limits.cache_bytes is None:
            return 0
        return self.nbytes() + more - self._limits.cache_bytes

    def _give_up_leases(self, request: Request) -> bool:
        """Let the store drop what a request holds of it; tell whether that was anything."""
        gave = False
        for _, lease in held(request):
            if lease is not None and lease.nodes and self._prefixes is not None:
                self._prefixes.release(lease)
                gave = True
        request.rewritten = 0
        return gave

    def _free(self, wanted: int) -> bool:
        """Drop stored prefixes that nobody holds; tell whether that freed anything."""
        return self._prefixes is not None and self._prefixes.free(wanted) > 0


def _yields(running: Request, to: Request) -> bool:
    """Tell whether a running request gives up its place to one that waits."""
    return running.paused or running.priority < to.priority


def _least_urgent_last(request: Request) -> tuple[bool, int, int]:
    return request.paused, *urgency(request)
