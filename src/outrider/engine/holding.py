"""What a running request holds: its caches, those of the drafter too, and its share of stored prefixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrider.cache.base import Cache, CacheKind
from outrider.cache.prefix import Lease, PrefixStore
from outrider.engine.request import DraftCache, Request
from outrider.models.base import Target


class Holdings:
    """Gives requests their caches, stores what these hold, and tells their bytes."""

    def __init__(self, target: Target, kinds: Sequence[CacheKind]) -> None:
        """`kinds`: the caches that the drafter keeps."""
        self._target, self._kinds = target, kinds

    def begin(self, request: Request, prefixes: PrefixStore | None) -> list[Cache]:
        """Give a request caches that begin with what is stored of its text; return the drafter's."""
        sequence = request.sequence
        request.drafts = [DraftCache(kind, kind.make()) for kind in self._kinds]
        if prefixes is None or sequence.wants_prompt_rows:
            return [draft.cache for draft in request.drafts]
        text = sequence.tokens[:-1]
        for draft in request.drafts:  # before the target's, whose pages then go later
            if draft.cache.page_slots:
                draft.lease = prefixes.lease(text, draft.kind.mark, draft.cache.page_slots)
        request.lease = prefixes.lease(text)
        followers = [draft for draft in request.drafts if draft.kind.of_states]
        if followers:
            _level([request.lease, *(draft.lease for draft in followers)], prefixes)
        if request.lease.nodes:
            sequence.cache = self._target.new_cache(request.lease.pages)
        for draft in request.drafts:
            if draft.lease is not None and draft.lease.nodes:
                draft.cache = draft.kind.make(draft.lease.pages)
        if followers and request.lease.nodes:
            target = (sequence.cache, request.lease)
            _step_back(request, [target, *((draft.cache, draft.lease) for draft in followers)])
        return [draft.cache for draft in request.drafts]

    def bytes_for(self, request: Request, guesses: int) -> int:
        """Return the bytes that a request's caches come to when its text so far is read."""
        length = len(request.sequence.tokens)
        own = request.sequence.cache.bytes_with(length + guesses)
        return own + sum(kind.bytes_for(length, guesses) for kind in self._kinds)


def stored(request: Request, most: int) -> Iterator[tuple[Cache, Lease, int]]:
    """Yield each cache of a request that is to be stored, with its lease and how many full pages it has.

    Of the first `most` tokens of the text; only those that the lease does not hold. A drafter's cache may
    hold guesses behind the text that the drafter has been told of.
    """
    sequence = request.sequence
    told = min(most, sequence.told)
    for cache, lease in held(request):
        if lease is None:
            continue
        cache.keep(())  # an interrupted pass has left its rows pending
        count = min(cache.length, most if cache is sequence.cache else told) // lease.slots
        if count > len(lease.nodes):
            yield cache, lease, count


def held(request: Request) -> list[tuple[Cache, Lease | None]]:
    """Return a request's caches, the target's last, each with what it holds of the store."""
    drafts: list[tuple[Cache, Lease | None]] = [(draft.cache, draft.lease) for draft in request.drafts]
    return [*drafts, (request.sequence.cache, request.lease)]


def own_bytes(request: Request) -> int:
    """Return the bytes of a request's caches, without those that the store holds and counts."""
    own = request.rewritten
    for cache, lease in held(request):
        own += cache.nbytes
        if lease is not None and not cache.copies_pages:
            own -= sum(page.nbytes for page in lease.pages)
    return own


def growth(request: Request, guesses: int) -> int:
    """Return by how many bytes the next pass makes a request's caches grow at most.

    A drafter that lags behind may read all that the target has read by then.
    """
    sequence = request.sequence
    rows = min(sequence.pending, sequence.prompt_rows)
    grown = sequence.cache.bytes_with(rows + guesses) - sequence.cache.nbytes
    length = sequence.cache.length + rows
    for draft in request.drafts:
        more = min(length, draft.kind.limit) - draft.cache.length
        grown += draft.cache.bytes_with(max(more, 0) + guesses) - draft.cache.nbytes
    return grown


def _level(leases: Sequence[Lease | None], prefixes: PrefixStore) -> None:
    """Have all leases hold equally many tokens, none where pages differ in size."""
    alike = len({None if lease is None else lease.slots for lease in leases}) == 1
    least = min(0 if lease is None or not alike else len(lease.nodes) for lease in leases)
    for lease in leases:
        if lease is not None:
            prefixes.release(lease, keep=least)


def _step_back(request: Request, caches: Sequence[tuple[Cache, Lease | None]]) -> None:
    """Have the last token of the prefix run again: what a drafter makes of it takes its hidden states.

    A cache that shares the last page copies it then.
    """
    for cache, lease in caches:
        assert lease is not None
        cache.truncate(lease.tokens - 1)
        if not cache.copies_pages:
            request.rewritten += lease.pages[-1].nbytes
