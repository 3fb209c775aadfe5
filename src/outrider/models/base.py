"""What the loop asks of a model: one ragged pass in, logits out. Adapters to real weights implement it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.errors import CapabilityError, counted

NORMED = -1
"""Among captured layers: the state after the last layer and the final norm, which is what the head reads."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one pass, of all sequences, without padding.

    The rows of a sequence stand together, and sequences in the order of their caches. `tokens [R]`,
    `positions [R]` (absolute), `sequences [R]` (index of the cache), `parents [R]`: the row this one
    continues, or −1 where it continues the last cached token of its sequence. A row attends to what its
    sequence's cache holds, to its ancestors and to itself. `wanted [W]`: the rows whose logits are asked for.
    """

    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    sequences: tuple[int, ...]
    parents: tuple[int, ...]
    wanted: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class PassOutput:
    """What one pass gives: `logits [W, V]` float32 in the order of `Batch.wanted`, and `hidden [C, R, D]`.

    `hidden` holds the residual stream after each layer that was to be captured (for `NORMED`, the last one
    after the final norm), for every row of the batch, float32.
    """

    logits: Tensor
    hidden: Tensor


class Target(Protocol):
    """A model that scores a batch in one pass.

    `forward` appends the batch's rows to the caches as pending; the caller then calls `Cache.keep` on each.
    """

    vocab_size: int
    context_limit: int
    can_branch: bool
    """True when a pass may hold trees with siblings; chains always work."""
    can_capture: bool
    """True for a `CapturingTarget`, whose hidden states can be had."""

    def new_cache(self, pages: Sequence[Page] = ()) -> Cache:
        """Return a cache for one sequence: empty, or beginning with pages of this target's other caches."""
        ...

    def forward(self, batch: Batch, caches: Sequence[Cache]) -> Tensor:
        """Run one pass; return float32 logits [W, V], in the order of `batch.wanted`."""
        ...


class CapturingTarget(Target, Protocol):
    """A target that shows a drafter its hidden states, its embedding and its head."""

    layers: int
    """How many layers it has."""
    hidden_size: int
    """D, the width of a hidden state."""

    def run(self, batch: Batch, caches: Sequence[Cache], *, captured: Sequence[int] = ()) -> PassOutput:
        """Run one pass as `forward` does, and keep the hidden states after the layers `captured`, from 0 on.

        `NORMED` among them stands for the last state after the final norm. OptionError for a layer that is
        not there, or named twice.
        """
        ...

    def embed(self, tokens: Sequence[int]) -> Tensor:
        """Return the embeddings of tokens, float32 [R, D]."""
        ...

    def head(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [R, V] of hidden states [R, D] after the final norm."""
        ...


def capturing(target: Target, features: Sequence[int], drafter: str) -> CapturingTarget:
    """Return a target as one that shows its hidden states.

    CapabilityError, naming the drafter that asks for them, where it does not, or lacks one of the layers.
    """
    if not target.can_capture:
        raise CapabilityError(
            f"the drafter {drafter!r} learns from the target's hidden states, which only models that run on "
            "the lean decoder show; choose another drafter"
        )
    able = cast(CapturingTarget, target)
    missing = next((layer for layer in features if layer != NORMED and not 0 <= layer < able.layers), None)
    if missing is not None:
        raise CapabilityError(
            f"the drafter {drafter!r} learns from the state after layer {missing}, counted from 0, but the "
            f"target has {counted(able.layers, 'layer')}; use a drafter that was made for this target"
        )
    return able


class LayeredTarget(Target, Protocol):
    """A target whose passes can leave layers out, on the caches of whole passes.

    What such a pass appends to a cache holds keys and values of the layers it ran and nothing of the others;
    it must be forgotten (`Cache.truncate`) before the next whole pass.
    """

    @property
    def weight_bytes(self) -> int:
        """Bytes of the matrices that every whole pass reads: those of the layers and the head."""
        ...

    @property
    def layer_bytes(self) -> Sequence[int]:
        """Of these, the bytes of each layer."""
        ...

    def run(
        self,
        batch: Batch,
        caches: Sequence[Cache],
        *,
        layers: Sequence[int] | None = None,
        captured: Sequence[int] = (),
    ) -> PassOutput:
        """Run one pass through `layers` (in this order; None: all); keep the states after `captured`."""
        ...


class Tokenizer(Protocol):
    """Text to tokens and back."""

    eos_ids: frozenset[int]
    """Tokens that end a turn."""
    has_chat_template: bool

    @property
    def chat_template(self) -> str | None:
        """The chat template in jinja2's notation; None where there is none."""
        ...

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text; `special` adds what the model expects around it (BOS)."""
        ...

    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        """Return the text of tokens; incomplete UTF-8 becomes U+FFFD."""
        ...

    def chat(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] | None = None
    ) -> list[int]:
        """Put messages, and tools that may be called, through the chat template, ready for the assistant's
        turn.
        """
        ...

    def vocabulary(self) -> dict[str, int]:
        """Return every token's text with its id, added tokens included."""
        ...

    def description(self) -> str | None:
        """Return the whole tokenizer as JSON in the format of `tokenizers`; None where it has none."""
        ...


@dataclass(frozen=True)
class LoadedModel:
    """A target with its tokenizer and what to say about them."""

    name: str
    target: Target
    tokenizer: Tokenizer
    details: dict[str, Any] = field(default_factory=dict)
    """architecture, parameters, weights (precision), kernel, source, load_seconds, notices."""
    prepared: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What was worked out of its vocabulary when first asked for."""
