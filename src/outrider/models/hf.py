"""Any causal language model of transformers as a target: one sequence after another, no trees."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.cache.base import Cache, Page
from outrider.errors import CapabilityError, LoadError, OptionError, UnsupportedModelError
from outrider.models.base import Batch

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16}
_NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


class TransformersCache:
    """Keys and values of one sequence in a transformers cache. Implements `outrider.cache.base.Cache`."""

    can_rewind = True
    page_slots = 0
    copies_pages = True

    def __init__(self, store: Any) -> None:
        self.store = store
        self._length = 0
        self.pending = 0

    @property
    def length(self) -> int:
        """Number of committed tokens held."""
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        held = (getattr(layer, part, None) for layer in self.store.layers for part in ("keys", "values"))
        return sum(tensor.nbytes for tensor in held if tensor is not None)

    def bytes_with(self, rows: int) -> int:
        """Return the bytes once a pass has run this many rows more; 0 before the first pass."""
        held = self._length + self.pending
        return self.nbytes * (held + rows) // held if held else 0

    def pages(self, count: int) -> list[Page]:
        """Return no pages: what these layers hold cannot be told apart by tokens."""
        assert count == 0
        return []

    def keep(self, rows: Sequence[int]) -> None:
        """Commit the first pending rows, which is all that a chain can keep, and drop the rest."""
        assert list(rows) == list(range(len(rows))), "a chain keeps a prefix of its rows"
        assert len(rows) <= self.pending
        self._drop(self.pending - len(rows))
        self._length += len(rows)
        self.pending = 0

    def truncate(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        assert 0 <= length <= self._length
        assert self.pending == 0
        self._drop(self._length - length)
        self._length = length

    def _drop(self, count: int) -> None:
        if count:
            self.store.crop(-count)


class TransformersTarget:
    """Implements `outrider.models.base.Target` over a causal language model of transformers.

    Sequences run one after another, and only chains. Keys of sliding-window layers are kept in full length,
    so that they can be rewound. UnsupportedModelError for models that carry a state which cannot be rewound,
    that are encoder-decoders, or whose answers a short trial shows to depend on what was rolled back or comes
    later. The model is put in evaluation mode.
    """

    can_branch = False
    can_capture = False

    def __init__(self, model: Any) -> None:
        import transformers

        self._model = model.eval()
        config = model.config.get_text_config(decoder=True)
        self._check_kind(config)
        self.notices: list[str] = ["runs through transformers: one sequence at a time, no trees"]
        head = model.get_output_embeddings()
        if head is None:
            raise UnsupportedModelError(f"{type(model).__name__} has no output head over a vocabulary")
        self.vocab_size = int(head.weight.shape[0])
        self.context_limit = self._limit(config)
        self.parameters = int(model.num_parameters())
        self.weights = _NAMES.get(model.dtype, str(model.dtype))
        self.kernel = f"transformers {transformers.__version__}"
        self.device = model.device
        accepted = inspect.signature(model.forward).parameters
        # transformers renamed the argument within its fifth major version.
        self._cache_argument = next((name for name in ("cache", "past_key_values") if name in accepted), None)
        if self._cache_argument is None:
            raise UnsupportedModelError(
                f"{type(model).__name__} takes no key/value cache, so it cannot be rewound"
            )
        self._takes_positions = "position_ids" in accepted
        self._takes_rows = "logits_to_keep" in accepted
        self._probe()

    def new_cache(self, pages: Sequence[Page] = ()) -> TransformersCache:
        """Return an empty cache for one sequence."""
        assert not pages, "no cache of this model gives pages"
        return TransformersCache(_full_length_store(self._model.config))

    @torch.inference_mode()
    def forward(self, batch: Batch, caches: Sequence[Cache]) -> Tensor:
        """Run one pass; return float32 logits [W, V]. CapabilityError for rows that branch."""
        logits: list[Tensor] = []
        start = 0
        for index, cache in enumerate(caches):
            assert isinstance(cache, TransformersCache), "caches come from new_cache"
            end = start
            while end < len(batch) and batch.sequences[end] == index:
                end += 1
            if list(batch.parents[start:end]) != [-1, *range(start, end - 1)]:
                raise CapabilityError("a model that runs through transformers checks chains only, not trees")
            wanted = [row - start for row in batch.wanted if start <= row < end]
            logits.append(self._run(batch.tokens[start:end], batch.positions[start:end], wanted, cache))
            start = end
        # `wanted` may list the rows of several sequences in any order.
        order = sorted(range(len(batch.wanted)), key=lambda at: batch.sequences[batch.wanted[at]])
        return torch.cat(logits)[torch.tensor(order, dtype=torch.long).argsort()]

    def _run(
        self, tokens: Sequence[int], positions: Sequence[int], wanted: list[int], cache: TransformersCache
    ) -> Tensor:
        arguments: dict[str, Any] = {self._cache_argument or "": cache.store}
        if self._takes_positions:
            arguments["position_ids"] = torch.tensor([positions], device=self.device)
        rows = torch.tensor(wanted, dtype=torch.long, device=self.device)
        if self._takes_rows:
            arguments["logits_to_keep"] = rows
        ids = torch.tensor([tokens], device=self.device)
        logits: Tensor = self._model(input_ids=ids, use_cache=True, return_dict=True, **arguments).logits[0]
        cache.pending = len(tokens)
        return (logits if self._takes_rows else logits[rows]).float()

    def _check_kind(self, config: Any) -> None:
        name = type(self._model).__name__
        if getattr(self._model.config, "is_encoder_decoder", False):
            raise UnsupportedModelError(f"{name} is an encoder-decoder; only decoders can be run")
        layers = _full_length_store(self._model.config).layers
        recurrent = any(hasattr(layer, "update_recurrent_state") for layer in layers)
        if getattr(self._model, "_is_stateful", False) or recurrent:
            raise UnsupportedModelError(
                f"{name} ({config.model_type}) carries a recurrent state, which cannot be rewound "
                "to drop a rejected draft"
            )

    def _limit(self, config: Any) -> int:
        limit = int(getattr(config, "max_position_embeddings", None) or sys.maxsize)
        rope = getattr(config, "rope_parameters", None) or {}
        trained = rope.get("original_max_position_embeddings", limit)
        if rope.get("rope_type") == "longrope" and trained < limit:
            # Beyond this length every position is rotated anew, so keys in the cache, and the same text seen
            # from a longer draft, would no longer agree.
            self.notices.append(
                f"context limited to {trained} positions, where longrope changes its frequencies"
            )
            return int(trained)
        return limit

    @torch.inference_mode()
    def _probe(self) -> None:
        """Run a few tokens, roll some back, run others, and compare with a pass that never saw the former."""
        name = type(self._model).__name__
        first, dropped, last = (2, 3), (5, 7), (11, 13)

        def tokens(numbers: Sequence[int]) -> list[int]:
            return [number % self.vocab_size for number in numbers]

        try:
            plain, rolled, alone = self.new_cache(), self.new_cache(), self.new_cache()
            expected = self._run(tokens(first + last), range(4), [0, 1, 2, 3], plain)
            self._run(tokens(first + dropped), range(4), [3], rolled)
            rolled.keep(range(2))
            found = self._run(tokens(last), range(2, 4), [0, 1], rolled)
            prefix = self._run(tokens(first), range(2), [0, 1], alone)
        except (
            AttributeError,
            IndexError,
            KeyError,
            NotImplementedError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            raise UnsupportedModelError(
                f"{name} does not run with a rewound key/value cache: {error}"
            ) from error
        # Rounding differs with the shape of a pass; what is looked for here is of another size.
        bound = (1e-4 if self.weights == "fp32" else 0.05) * float(expected.abs().max())
        if float((prefix - expected[:2]).abs().max()) > bound:
            raise UnsupportedModelError(f"{name} looks ahead: its logits change with the tokens that follow")
        if float((found - expected[2:]).abs().max()) > bound:
            raise UnsupportedModelError(f"{name} remembers rolled-back tokens: its state cannot be rewound")


def load_causal_lm(directory: Path, weights: str, device: torch.device) -> Any:
    """Return the causal language model in a checkpoint directory, read by transformers.

    `weights` "auto" keeps the checkpoint's own precision. UnsupportedModelError for an architecture that
    transformers does not know, OptionError for weights "int8", LoadError where tensors are missing, left over
    or damaged: transformers would fill in random ones.
    """
    import transformers
    from safetensors import SafetensorError

    if weights not in ("auto", *_DTYPES):
        raise OptionError(f"weights {weights!r} need the lean decoder; here use auto, {' or '.join(_DTYPES)}")
    try:
        config = transformers.AutoConfig.from_pretrained(str(directory), local_files_only=True)
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            str(directory),
            config=config,
            dtype=_DTYPES.get(weights, "auto"),
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except (SafetensorError, OSError) as error:
        raise LoadError(f"{directory} cannot be read: {error}") from error
    except (ValueError, KeyError, ImportError) as error:
        raise UnsupportedModelError(
            f"transformers {transformers.__version__} cannot run the model in {directory}: {error}"
        ) from error
    for problem in ("missing_keys", "mismatched_keys", "unexpected_keys"):
        if info.get(problem):
            names = sorted(str(name) for name in info[problem])
            raise LoadError(
                f"{directory}: {problem.replace('_', ' ')}: {', '.join(names[:3])} ({len(names)} in all)"
            )
    return model.to(device)


def _full_length_store(config: Any) -> Any:
    """Return an empty transformers cache that also keeps what lies outside a window, so it can be cropped."""
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

    try:
        store = DynamicCache(config=config)
    except (AttributeError, KeyError, TypeError, ValueError):
        return DynamicCache()  # a configuration without layer types: plain layers, made when first used
    store.layers = [
        DynamicLayer() if type(layer) is DynamicSlidingWindowLayer else layer for layer in store.layers
    ]
    return store
