"""Logits to probability laws: the only place where this happens, for targets and drafters alike.

The options of a request act in this order, each on what the ones before it left:

1. `logit_bias` is added;
2. `repetition_penalty` (tokens of prompt and output), then `frequency_penalty` and `presence_penalty` (of the
   output), each over the row's own prefix: the committed text and the drafted tokens on its path;
3. the user's `logits_processors`, in their order;
4. what is forbidden becomes impossible: `allowed_tokens`, `banned_tokens`, `banned_words`,
   `no_repeat_ngram_size`, end tokens before `min_tokens`, the constraint. These come after all that moves
   logits, so that nothing brings a forbidden token back;
5. `temperature`, `top_k`, `top_p`, `min_p`, `typical_p`. At temperature 0 the most likely token is taken and
   the filters have nothing to do.

1 to 4 are `outrider.sampling.processing`; where none of them is on, they cost nothing.
"""

from __future__ import annotations

import heapq
import math
import weakref
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.errors import NumericsError, OptionError
from outrider.sampling import rows
from outrider.sampling.filters import filtered, kth_largest
from outrider.sampling.logprobs import TokenLogprobs, of_law, of_logits
from outrider.sampling.params import SamplingParams
from outrider.sampling.processing import Processing

CLOSE = 2.5
"""So far below the likeliest are few tokens, mostly: enough where only some are asked for."""
UNLIKELY = 6.0
"""Tokens less likely than the likeliest by more than this factor's logarithm are not worth naming."""
_COLDEST, _HOTTEST = 1e-30, 1e30  # keeps -x / temperature within float32


def law(logits: Float[Tensor, "*N V"], params: SamplingParams) -> Float[Tensor, "*N V"]:
    """Return the law of the next token, float32, for one row of logits or for several.

    Temperature 0 gives the point mass on the most likely token, the lowest id among equals. Otherwise, in
    this order: temperature; `top_k` (tokens that tie with the k-th stay); `top_p` (tokens in falling order of
    probability, equal ones in rising order of id, until their mass reaches top_p of what top_k left; the
    token that reaches it stays); `min_p` (relative to the most likely token); `typical_p` (tokens in order of
    how far their surprise lies from the entropy of what is left, until their mass reaches typical_p; ties
    with the last one stay; Meister et al. 2202.00666); the rest is renormalised. Each row is worked out by
    itself. NumericsError where a row holds NaN or its maximum is not finite.
    """
    if logits.dim() == 1:
        return _law(logits, params)
    assert logits.dim() == 2
    rows = [_law(row, params) for row in logits]
    return torch.stack(rows) if rows else logits.new_zeros(logits.shape, dtype=torch.float32)


def most_likely(logits: Float[Tensor, "M V"]) -> list[int]:
    """Return the most likely token of each row, the lowest id among equals; of a row with NaN, a NaN."""
    if _is_plain(logits):
        rows: list[int] = logits.numpy().argmax(-1).tolist()  # several times as fast as torch's on a CPU
        return rows
    return [int(token) for token in logits.argmax(-1).tolist()]


def _is_plain(logits: Tensor) -> bool:
    return logits.device.type == "cpu" and logits.dtype == torch.float32


def _no_path(row: int) -> Sequence[int]:
    return ()


class LogitLaws:
    """The laws of one sequence's rows, worked out when they are asked for; kept while someone holds them.

    `logits [N+1, V]`. `processing` is what the sequence's options do to a row that comes after `path(row)`,
    the drafted tokens between the committed text and it; None where they do nothing. NumericsError when a row
    that is asked for holds NaN or its maximum is not finite, DeadEndError when the options leave it no token.
    """

    def __init__(
        self,
        logits: Float[Tensor, "M V"],
        params: SamplingParams,
        processing: Processing | None = None,
        path: Callable[[int], Sequence[int]] = _no_path,
    ) -> None:
        assert logits.dim() == 2
        self._logits, self._params = logits, params
        # numpy looks at a row several times as fast as torch does.
        self._array = logits.numpy() if _is_plain(logits) else None
        self._processing, self._path = processing, path
        self._processed: dict[int, Tensor] = {}
        self._coldness = _coldness(params)
        self._modes: dict[int, int] = {}
        self._weighed: dict[int, tuple[float, float]] = {}
        self._laws: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._logits)

    def __getitem__(self, row: int, /) -> Tensor:
        law = self._laws.get(self._checked(row))
        if law is None:
            if self._params.temperature == 0:
                law = _point_mass(self._logits[row], self.mode(row))
            elif self._params.has_filters:
                law = _law(self._row(row), self._params)
            else:
                logits = self._row(row).to(torch.float32)
                law = rows.softmax(logits, *self._weigh(row, logits))
            self._laws[row] = law
        return law

    def probability(self, row: int, token: int) -> float:
        """Return one token's probability at a row, that of `self[row]` to the bit.

        Without filters nothing of the vocabulary's size is made.
        """
        law = self._laws.get(self._checked(row))
        if law is None and self._params.temperature == 0:
            return float(token == self.mode(row))
        if law is None and not self._params.has_filters:
            logits = self._row(row).to(torch.float32)
            return rows.share(logits, token, *self._weigh(row, logits))
        return float((self[row] if law is None else law)[token])

    def _checked(self, row: int) -> int:
        if not 0 <= row < self._logits.shape[0]:
            raise IndexError(row)
        return row

    def _weigh(self, row: int, logits: Float[Tensor, " V"]) -> tuple[float, float, float]:
        """Return the largest of a row's logits, 1 / temperature and the sum of the weights (see `rows`)."""
        weighed = self._weighed.get(row)
        if weighed is None:
            weighed = self._weighed[row] = _peak_and_total(logits, self._coldness)
        peak, total = weighed
        return peak, self._coldness, total

    def mode(self, row: int) -> int:
        """Return the most likely token of a row, the lowest id among equals."""
        if self._processing is not None:
            return most_likely(self._row(row)[None])[0]
        mode = self._bare_mode(row)
        _check(float(self._logits[row, mode] if self._array is None else self._array[row, mode]))
        return mode

    def entropy(self, row: int) -> float:
        """Return the entropy in nats of `self[row]`, up to rounding.

        Without filters nothing of the vocabulary's size is made.
        """
        if self._params.temperature == 0 or self._params.has_filters:
            return rows.entropy_of(self[row])
        logits = self._row(self._checked(row)).to(torch.float32)
        return rows.entropy(logits, *self._weigh(row, logits))

    def likely(self, row: int, count: int) -> list[tuple[int, float]]:
        """Return up to `count` of a row's most likely tokens, the likeliest first, by the bare logits.

        Each comes with how far its logit lies below the first one's; those further than `UNLIKELY` are left
        out, and of a row with NaN all.
        """
        near, below = rows.near(self._logits[row], UNLIKELY)
        found = heapq.nsmallest(count, zip(below, near, strict=True))
        return [(token, far) for far, token in found]

    def confidence(self, row: int) -> float:
        """Return the probability of a row's most likely token at temperature 1, before any filter."""
        logits = self._row(row).to(torch.float32)
        if self._params.temperature == 1:
            return 1.0 / self._weigh(row, logits)[2]
        return 1.0 / _peak_and_total(logits, 1.0)[1]

    def logprobs(self, row: int, token: int, top: int, *, processed: bool) -> TokenLogprobs:
        """Return the logprobs of `token` and of the `top` most likely ones at a row: of the law that it is
        drawn from where `processed`, else of the model's own, before any option.
        """
        return of_law(self[row], token, top) if processed else of_logits(self._logits[row], token, top)

    def own(self, row: int, tokens: Sequence[int]) -> list[float]:
        """Return how likely the model itself finds tokens at a row, before any option; NaN for no number."""
        logits = self._logits[row].to(torch.float32)
        peak = logits.amax().item()
        total = (logits - peak).exp_().sum(dtype=torch.float64).item()
        return [math.exp(float(logits[token]) - peak) / total for token in tokens]

    def best(self, row: int, count: int) -> list[tuple[int, float]]:
        """Return up to `count` of a row's most likely tokens, the likeliest first, with their probabilities.

        At temperature 1, before any filter, as `confidence`; of equal ones the lowest id first.
        """
        logits = self._row(row).to(torch.float32)
        total = _peak_and_total(logits, 1.0)[1]
        for reach in (CLOSE, UNLIKELY):
            near, below = rows.near(logits, reach)
            if len(near) >= count:
                break
        found = sorted(zip(below, near, strict=True))[:count]
        return [(token, math.exp(-far) / total) for far, token in found]

    def is_dead_end(self, row: int) -> bool:
        """Tell whether nothing that is emitted can follow a row: its path ends the text by the constraint, or
        the options leave no token there, or fail.

        A drafter ends its path there; where the text comes to it, the target's own law says what is wrong.
        """
        try:
            if self._processing is not None and self._processing.is_over(self._path(row)):
                return True
            self._row(row)
        except OptionError:
            return True
        return False

    def _bare_mode(self, row: int) -> int:
        if self._array is not None:
            if row not in self._modes:
                self._modes[row] = int(self._array[row].argmax())
        elif not self._modes:  # a device is asked once for all rows
            self._modes.update(enumerate(most_likely(self._logits)))
        return self._modes[row]

    def _row(self, row: int) -> Float[Tensor, " V"]:
        """Return a row's logits after all that its prefix does to them."""
        if self._processing is None:
            return self._logits[row]
        if row not in self._processed:
            _check(self._logits[row].amax().item())
            self._processed[row] = self._processing.row(self._logits[row], self._path(row))
        return self._processed[row]


def _law(row: Float[Tensor, " V"], params: SamplingParams) -> Float[Tensor, " V"]:
    row = row.to(torch.float32)
    coldness = _coldness(params)
    if params.temperature > 0 and not params.has_filters:
        peak, total = _peak_and_total(row, coldness)
        return rows.softmax(row, peak, coldness, total)
    peak = row.amax().item()
    _check(peak)
    if params.temperature == 0:
        return _point_mass(row, most_likely(row[None])[0])
    if 0 < params.top_k < len(row):
        ids = rows.where(row >= kth_largest(row, params.top_k))
        weights = rows.softmax(row[ids], peak, coldness, 1.0)
        return torch.zeros_like(row).index_copy_(0, ids, filtered(weights, params))
    return filtered(rows.softmax(row, peak, coldness, 1.0), params)


def _coldness(params: SamplingParams) -> float:
    return 1.0 / min(max(params.temperature, _COLDEST), _HOTTEST)


def _peak_and_total(row: Float[Tensor, " V"], coldness: float) -> tuple[float, float]:
    """Return a row's largest logit and the sum of its weights; NumericsError where either is not finite."""
    peak, total = rows.weigh(row, coldness)
    _check(peak)
    _check(total)
    return peak, total


def _point_mass(row: Tensor, token: int) -> Float[Tensor, " V"]:
    mass = torch.zeros(len(row), dtype=torch.float32, device=row.device)
    mass[token] = 1.0
    return mass


def _check(peak: float) -> None:
    if not -float("inf") < peak < float("inf"):
        raise NumericsError(
            f"the model's logits have {peak} as their maximum; the weights may be damaged, or the precision "
            "too low for them: try float32 weights"
        )
