"""Models with an exactly known law, for proofs and for tests of the whole loop."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.models.base import NORMED, Batch, PassOutput


@dataclass(frozen=True, slots=True)
class ToyPage:
    """A few tokens in a row."""

    tokens: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes, at 8 a token."""
        return 8 * len(self.tokens)


class ToyCache:
    """The tokens of one sequence; the pending ones with the position each was run at."""

    can_rewind = True
    page_slots = 4
    copies_pages = True

    def __init__(self, pages: Sequence[ToyPage] = ()) -> None:
        self.tokens = [token for page in pages for token in page.tokens]
        self.pending: list[int] = []
        self.pending_whole = True
        self.whole: int | None = None
        """Tokens that whole passes wrote, where passes that left layers out wrote more behind them."""

    @property
    def length(self) -> int:
        """Number of committed tokens."""
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Bytes a real cache of this length might hold, at 8 a token."""
        return self.bytes_with(len(self.pending))

    def bytes_with(self, rows: int) -> int:
        """Return the bytes with this many pending rows."""
        return 8 * (len(self.tokens) + rows)

    def pages(self, count: int) -> list[ToyPage]:
        """Return the first `count` pages; committed tokens must fill them."""
        ends = range(self.page_slots, (count + 1) * self.page_slots, self.page_slots)
        assert count * self.page_slots <= len(self.tokens)
        assert self.whole is None or count * self.page_slots <= self.whole, "pages are of whole passes"
        return [ToyPage(tuple(self.tokens[end - self.page_slots : end])) for end in ends]

    def keep(self, rows: Sequence[int]) -> None:
        """Commit these pending rows, drop the rest."""
        assert list(rows) == sorted(set(rows))
        if rows and not self.pending_whole and self.whole is None:
            self.whole = len(self.tokens)
        self.tokens += [self.pending[row] for row in rows]
        self.pending = []

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        assert not self.pending
        assert 0 <= length <= len(self.tokens)
        del self.tokens[length:]
        if self.whole is not None and length <= self.whole:
            self.whole = None


class ToyTarget:
    """A Markov chain that keeps the model protocol: the law of a token depends on the last `order` tokens.

    `law` gives it in exact rationals, `forward` as logits (the logarithm, -inf for probability zero). Each
    probability is zero with chance `zeros`; one token of each law never is. With `like`, each law is
    `share` of that model's law and 1 - share of its own: a drafter that agrees with it more or less often.
    `forward` checks what a real model cannot: that positions and parents fit the cache, and that all layers
    wrote what it reads. A pass that leaves layers out has a law that is as far off as it leaves out many.
    """

    can_branch = True
    can_capture = True
    weight_bytes = 0
    """Passes of toys are free."""
    layer_bytes = (0, 0, 0)
    layers = len(layer_bytes)

    def __init__(
        self,
        vocab_size: int = 8,
        *,
        order: int = 2,
        seed: int = 0,
        zeros: float = 0.25,
        context_limit: int = 4096,
        like: ToyTarget | None = None,
        share: Fraction = Fraction(3, 4),
    ) -> None:
        assert like is None or like.vocab_size == vocab_size
        self.vocab_size: int = vocab_size
        self.hidden_size: int = vocab_size
        self.context_limit = context_limit
        self._reach: int = max(order, like._reach) if like else order
        self._order, self._seed, self._zeros = order, seed, zeros
        self._like, self._share = like, share
        self._laws: dict[tuple[int, ...], tuple[Fraction, ...]] = {}
        self._logits: dict[tuple[int, ...], list[float]] = {}
        self._partial: dict[tuple[int, ...], ToyTarget] = {}

    def law(self, tokens: Sequence[int]) -> tuple[Fraction, ...]:
        """Return the law of the token after `tokens`, [V]; texts shorter than `order` have their own."""
        context = tuple(tokens[max(0, len(tokens) - self._reach) :])
        if context not in self._laws:
            own = self._own_law(context[max(0, len(context) - self._order) :])
            if self._like is not None:
                pairs = zip(self._like.law(context), own, strict=True)
                own = tuple(self._share * theirs + (1 - self._share) * mine for theirs, mine in pairs)
            self._laws[context] = own
        return self._laws[context]

    def _own_law(self, context: tuple[int, ...]) -> tuple[Fraction, ...]:
        chance = random.Random(f"{self._seed}:{context}")
        weights = [
            0 if chance.random() < self._zeros else chance.randint(1, 16) for _ in range(self.vocab_size)
        ]
        weights[chance.randrange(self.vocab_size)] += chance.randint(1, 16)
        return tuple(Fraction(weight, sum(weights)) for weight in weights)

    def new_cache(self, pages: Sequence[Page] = ()) -> ToyCache:
        """Return a cache for one sequence, which begins with these pages."""
        return ToyCache([page for page in pages if isinstance(page, ToyPage)])

    def forward(self, batch: Batch, caches: Sequence[Cache]) -> Tensor:
        """Return float32 logits [W, V] of the wanted rows; all rows become pending in their caches."""
        return self.run(batch, caches).logits

    def run(
        self,
        batch: Batch,
        caches: Sequence[Cache],
        *,
        layers: Sequence[int] | None = None,
        captured: Sequence[int] = (),
    ) -> PassOutput:
        """Run one pass through these layers (None: all).

        The states after a layer are the logits of a row, kept finite, and less in lower layers; those after
        the norm are as after the last layer.
        """
        kept = tuple(range(self.layers) if layers is None else layers)
        whole = len(kept) == self.layers
        texts: list[list[int]] = []
        for row in range(len(batch)):
            cache = caches[batch.sequences[row]]
            assert isinstance(cache, ToyCache)
            parent = batch.parents[row]
            assert parent < row
            assert parent < 0 or batch.sequences[parent] == batch.sequences[row]
            before = cache.tokens if parent < 0 else texts[parent]
            assert batch.positions[row] == len(before) < self.context_limit
            assert 0 <= batch.tokens[row] < self.vocab_size
            texts.append([*before, batch.tokens[row]])
        assert list(batch.sequences) == sorted(batch.sequences)
        for index, cache in enumerate(caches):
            assert isinstance(cache, ToyCache)
            assert not cache.pending
            assert cache.whole is None or not whole, "a whole pass reads what whole passes wrote"
            cache.pending_whole = whole
            rows = [row for row in range(len(batch)) if batch.sequences[row] == index]
            cache.pending = [batch.tokens[row] for row in rows]
        model = self if whole else self._through(kept)
        asked = range(len(batch)) if captured else batch.wanted
        found = torch.tensor([model._logits_after(texts[row]) for row in asked], dtype=torch.float32)
        found = found.reshape(len(asked), self.vocab_size)
        if not captured:
            return PassOutput(found, torch.empty(0))
        shares = [self.layers if layer == NORMED else layer + 1 for layer in captured]
        hidden = torch.stack([found.clamp(min=-8.0) * share / self.layers for share in shares])
        return PassOutput(found[list(batch.wanted)], hidden)

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """Return a one for each token at its place, [R, V]."""
        return torch.eye(self.vocab_size)[list(tokens)]

    def head(self, hidden: Tensor) -> Tensor:
        """Return normed hidden states as they are: they are logits."""
        return hidden

    def _through(self, layers: tuple[int, ...]) -> ToyTarget:
        if layers not in self._partial:
            seed = 1000 * (self._seed + 1) + sum(1 << layer for layer in layers)
            share = Fraction(len(layers), len(self.layer_bytes))
            partial = ToyTarget(self.vocab_size, order=self._order, seed=seed, like=self, share=share)
            self._partial[layers] = partial
        return self._partial[layers]

    def _logits_after(self, tokens: Sequence[int]) -> list[float]:
        context = tuple(tokens[max(0, len(tokens) - self._reach) :])
        if context not in self._logits:
            self._logits[context] = [_log(p) for p in self.law(context)]
        return self._logits[context]


class ToyTokenizer:
    """Letters for tokens: token i is the i-th of a, b, c …, so texts of a toy model can be read."""

    has_chat_template = False
    chat_template = None

    def __init__(self, vocab_size: int, eos_ids: frozenset[int] = frozenset()) -> None:
        self.vocab_size, self.eos_ids = vocab_size, eos_ids

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text made of the vocabulary's letters; spaces have none."""
        ids = [ord(letter) - ord("a") for letter in text if letter != " "]
        assert all(0 <= token < self.vocab_size for token in ids)
        return ids

    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        """Return the letters of tokens; end tokens have none."""
        return "".join(
            chr(ord("a") + token) for token in tokens if not (skip_special and token in self.eos_ids)
        )

    def chat(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] | None = None
    ) -> list[int]:
        """Return the messages' letters one after the other; tools have none."""
        return self.encode("".join(str(message["content"]) for message in messages))

    def vocabulary(self) -> dict[str, int]:
        """Return every letter with its id."""
        return {chr(ord("a") + token): token for token in range(self.vocab_size)}

    def description(self) -> str:
        """Return a tokenizer of these letters as JSON in the format of `tokenizers`."""
        backend = Backend(models.BPE(vocab=self.vocabulary(), merges=[]))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.decoder = decoders.ByteLevel()
        return str(backend.to_str())


def _log(probability: Fraction) -> float:
    return math.log(probability) if probability else -math.inf
