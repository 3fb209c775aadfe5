"""A grammar as a constraint: its matcher follows the committed text and any drafted path after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from outrider.errors import OptionError
from outrider.sampling.constraint import Constraint

if TYPE_CHECKING:
    from llguidance import LLMatcher

_DEAD_END = "NoExtension"
"""How the matcher begins to say that no token of this vocabulary fits."""


class GrammarConstraint(Constraint):
    """The grammar of one sequence.

    `matcher` stands before the first token and becomes this sequence's own. Tokens in `ends` are no text:
    they may stand where the grammar may end, and nowhere else (`own_end` is the matcher's, no token at all).
    `style` is a matcher of the same grammar in the layout that models usually write (it accepts less); while
    the text keeps to it, what it forces are the guesses of `forced`. A row costs one step of the matcher from
    the row before it, tens of microseconds.

    Where only one text may follow, the matcher lets it be written in the tokenizer's own tokens only.
    """

    def __init__(
        self,
        matcher: LLMatcher,
        vocab_size: int,
        *,
        own_end: int,
        ends: Iterable[int] = (),
        name: str = "the grammar",
        style: LLMatcher | None = None,
    ) -> None:
        self.name = name
        self._matcher, self._style = matcher, style
        self._vocab_size = vocab_size
        self._own_end, self._ends = own_end, frozenset(ends)
        self._end_ids = np.array(sorted(self._ends), dtype=np.int64)
        # Paths are tried on a copy: one that fails there does not harm the matcher of the committed text.
        self._scout, self._at = matcher.deep_copy(), list[int]()
        self._masks: dict[tuple[int, ...], Tensor | None] = {}

    def commit(self, tokens: Sequence[int]) -> None:
        """Take in output tokens that are now part of the text."""
        text = self._before_end(tokens)
        taken = self._matcher.try_consume_tokens(text)
        self._check(self._matcher)
        assert taken == len(text), "what is emitted fits the grammar"
        if self._style is not None and self._style.try_consume_tokens(text) < len(text):
            self._style = None
        if self._move(text):
            self._at = []  # the scout stands where the matcher does
        else:
            self._restart()
        done = tuple(tokens)
        self._masks = {
            path[len(done) :]: mask for path, mask in self._masks.items() if path[: len(done)] == done
        }

    def mask(self, path: Sequence[int], vocab_size: int) -> Tensor | None:
        """Return which tokens may follow the committed text and then `path`: bool [V]; None where `path` has
        ended the text or does not fit.

        OptionError where the grammar is too complex to go on.
        """
        assert vocab_size == self._vocab_size
        key = tuple(path)
        if key not in self._masks:
            self._masks[key] = self._mask(key)
        return self._masks[key]

    def accepts(self, path: Sequence[int]) -> int:
        """Return how many tokens of `path`, from its first, may follow the committed text."""
        text = self._before_end(path)
        count = self._matcher.validate_tokens(text)
        if count == len(text) < len(path) and self._move(text) and self._scout.is_accepting():
            count += 1
        return count

    def is_over(self, path: Sequence[int]) -> bool:
        """Tell whether the text is complete after `path`, so that nothing but its end may follow."""
        if len(self._before_end(path)) < len(path):
            return True
        if not self._move(path):
            return False
        if self._scout.is_stopped():
            return True
        if not self._scout.is_accepting():
            return False
        mask = self.mask(path, self._vocab_size)
        return mask is not None and int(mask.sum()) == len(self._ends)

    def forced(self, limit: int) -> list[int]:
        """Return at most `limit` tokens that the grammar, in its usual layout, leaves no choice about."""
        matcher = self._matcher if self._style is None else self._style
        following = matcher.compute_ff_tokens()
        found: list[int] = []
        if following:
            scout = matcher.deep_copy()
            while following and len(found) < limit and not scout.is_stopped():
                taken = scout.try_consume_tokens(following)
                found += following[:taken]
                following = scout.compute_ff_tokens() if taken == len(following) else []
        found = found[:limit]
        return found[: self.accepts(found)]

    def _mask(self, path: tuple[int, ...]) -> Tensor | None:
        if len(self._before_end(path)) < len(path) or not self._move(path):
            return None
        accepting = self._scout.is_accepting()
        bits = np.frombuffer(self._scout.compute_bitmask(), dtype=np.uint8)
        if self._scout.is_error() and self._scout.get_error().startswith(_DEAD_END):
            self._restart()
            return torch.zeros(self._vocab_size, dtype=torch.bool)
        self._check(self._scout)
        mask = np.unpackbits(bits, count=self._vocab_size, bitorder="little").view(np.bool_)
        mask[self._own_end : self._own_end + 1] = False
        mask[self._end_ids] = accepting
        return torch.from_numpy(mask)

    def _before_end(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens before the first end token."""
        end = next((index for index, token in enumerate(tokens) if token in self._ends), len(tokens))
        return list(tokens[:end])

    def _move(self, path: Sequence[int]) -> bool:
        """Bring the scout to the end of `path`, by way of what it shares with where it stands; False where
        the path does not fit.
        """
        shared = 0
        while shared < min(len(path), len(self._at)) and path[shared] == self._at[shared]:
            shared += 1
        if shared < len(self._at):
            if not self._scout.rollback(len(self._at) - shared):
                self._restart()
                shared = 0
            del self._at[shared:]
        taken = self._scout.try_consume_tokens(list(path[shared:]))
        self._at += path[shared : shared + taken]
        self._check(self._scout)
        return len(self._at) == len(path)

    def _restart(self) -> None:
        self._scout, self._at = self._matcher.deep_copy(), []

    def _check(self, matcher: LLMatcher) -> None:
        if matcher.is_error():
            reason = matcher.get_error().partition("\n")[0]
            self._restart()
            raise OptionError(f"{self.name} is too complex to go on with ({reason}); simplify it")
