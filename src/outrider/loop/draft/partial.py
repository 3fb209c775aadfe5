"""A target as its own draft model: passes that leave layers out, on the cache that whole passes filled."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.errors import CapabilityError
from outrider.models.base import Batch, LayeredTarget, Target


class Loan:
    """A sequence's own cache, lent to a draft. Implements `cache.base.Cache`.

    While it is lent, draft rows lie behind the committed ones, with keys and values of some layers only;
    what is given back is what was lent. Otherwise it is empty, and nothing can be put into it.
    """

    can_rewind = True
    page_slots = 0
    copies_pages = False

    def __init__(self) -> None:
        self._cache: Cache | None = None
        self._length = 0

    @property
    def length(self) -> int:
        """Number of tokens held, drafted ones included; 0 where nothing is lent."""
        return 0 if self._cache is None else self._cache.length

    @property
    def nbytes(self) -> int:
        """None of its own."""
        return 0

    @property
    def cache(self) -> Cache:
        """The cache that is lent."""
        assert self._cache is not None, "a draft pass runs on a cache that was lent"
        return self._cache

    def bytes_with(self, rows: int) -> int:
        """Return 0: whoever lends the cache counts its bytes."""
        return 0

    def pages(self, count: int) -> Sequence[Page]:
        """Return none; what is lent is not to be passed on."""
        assert count == 0
        return ()

    def keep(self, rows: Sequence[int]) -> None:
        """Keep pending rows until the cache is given back."""
        if self._cache is not None:
            self._cache.keep(rows)

    def truncate(self, length: int) -> None:
        """Forget drafted rows after the first `length` tokens."""
        if self._cache is not None:
            assert length >= self._length, "what was lent is only read"
            self._cache.truncate(length)

    def lend(self, cache: Cache) -> None:
        """Take a cache on loan."""
        assert self._cache is None, "a cache is given back before the next draft"
        self._cache, self._length = cache, cache.length

    def give_back(self) -> None:
        """Forget all drafted rows, those of an interrupted pass included; nothing where that was done."""
        if self._cache is not None:
            self._cache.keep(())
            self._cache.truncate(self._length)
            self._cache = None


class PartialModel:
    """A target that runs without some of its layers. Implements `models.base.Target`; caches are `Loan`s."""

    def __init__(self, target: LayeredTarget, skipped: Sequence[int]) -> None:
        """`skipped`: the layers that are left out, counted from 0; one at least must be left."""
        self._target = target
        self._kept = [layer for layer in range(len(target.layer_bytes)) if layer not in skipped]
        assert self._kept, "a pass runs a layer at least"
        self.vocab_size, self.context_limit = target.vocab_size, target.context_limit
        self.can_branch, self.can_capture = target.can_branch, False
        self.weight_bytes = target.weight_bytes - sum(target.layer_bytes[layer] for layer in skipped)
        """Bytes of the matrices that a pass reads: those of the layers it runs and the head."""

    def new_cache(self, pages: Sequence[Page] = ()) -> Loan:
        """Return a loan of a cache; it cannot begin with pages."""
        assert not pages
        return Loan()

    def forward(self, batch: Batch, caches: Sequence[Cache]) -> Tensor:
        """Run one pass on caches that were lent; return float32 logits [W, V]."""
        lent = [cache.cache for cache in caches if isinstance(cache, Loan)]
        assert len(lent) == len(caches)
        return self._target.run(batch, lent, layers=self._kept).logits


def layered(target: Target) -> LayeredTarget:
    """Return a target that can leave layers out; CapabilityError where it cannot."""
    if not hasattr(target, "layer_bytes"):
        raise CapabilityError(
            "this model runs as a whole: layers are left out by the lean decoder only (families llama, "
            "mistral, qwen2 and qwen3), not through transformers; use another drafter, such as suffix"
        )
    found: LayeredTarget = target  # type: ignore[assignment]
    return found
