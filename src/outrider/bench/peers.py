"""Other engines on the same prompts and weights, to know where plain decoding stands."""

from __future__ import annotations

import time
from typing import Any

import torch

from outrider.engine.result import Origin, Result, Speculation, Timing
from outrider.errors import CapabilityError, LoadError
from outrider.models.base import LoadedModel, Tokenizer
from outrider.models.config import DecoderConfig
from outrider.models.decoder import Decoder
from outrider.models.gguf_file import GGUFFile
from outrider.models.load import families
from outrider.models.locate import locate
from outrider.models.source import GGUFSource, TensorSource
from outrider.sampling.params import SamplingParams
from outrider.types import Guarantee

NAN = float("nan")


class TransformersPeer:
    """`generate` of transformers, greedy, in float32, with the weights of the loaded model."""

    name = "transformers"

    def __init__(self, model: Any, tokenizer: Tokenizer, context_limit: int) -> None:
        self._model, self._tokenizer, self._context_limit = model, tokenizer, context_limit

    @classmethod
    def build(cls, name: str, loaded: LoadedModel) -> TransformersPeer:
        """Load the model called `name` once more, into transformers.

        LoadError where transformers is not installed; CapabilityError for a GGUF file that the lean decoder
        does not run.
        """
        try:
            import transformers
        except ImportError as error:
            raise LoadError('--peer transformers needs transformers: pip install "outrider[hf]"') from error
        transformers.utils.logging.disable_progress_bar()
        path = locate(name)
        if path.is_dir():
            model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        elif isinstance(loaded.target, Decoder):
            file = GGUFFile(path)
            config = loaded.target.config
            model = from_tensors(config, _gguf_source(file, config))
        else:
            raise CapabilityError(
                f"--peer transformers cannot read {path.name}; give a Hugging Face directory"
            )
        return cls(model.eval(), loaded.tokenizer, loaded.target.context_limit)

    @torch.inference_mode()
    def generate(self, prompt: list[int], params: SamplingParams) -> Result:
        """Return the result for one prompt; decode time runs from its first token to its last."""
        assert params.greedy
        assert params.max_tokens is not None
        assert not params.stop, "stop strings are not part of a benchmark"
        ends = sorted({*params.stop_token_ids, *(() if params.ignore_eos else self._tokenizer.eos_ids)})
        clock = _TokenClock()
        output = self._model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=min(params.max_tokens, self._context_limit - len(prompt)),
            do_sample=False,
            eos_token_id=ends or None,
            pad_token_id=0,
            streamer=clock,
        )
        tokens = tuple(int(token) for token in output[0, len(prompt) :])
        return self._result(prompt, tokens, tokens[-1] in ends, clock, params)

    def _result(
        self,
        prompt: list[int],
        tokens: tuple[int, ...],
        stopped: bool,
        clock: _TokenClock,
        params: SamplingParams,
    ) -> Result:
        arrivals = clock.arrivals
        return Result(
            text=self._tokenizer.decode(tokens),
            token_ids=tokens,
            origins=(Origin.PLAIN,) * len(tokens),
            finish_reason="stop" if stopped else "length",
            prompt_tokens=len(prompt),
            seed=params.seed or 0,
            timing=Timing(
                prefill_seconds=arrivals[0] - clock.started,
                decode_seconds=arrivals[-1] - arrivals[0],
                decode_tokens=len(arrivals) - 1,
                target_seconds=NAN,
                decode_target_seconds=NAN,
                draft_seconds=0.0,
            ),
            speculation=Speculation(
                drafter=self.name,
                rule="greedy",
                guarantee=Guarantee.SAME_LAW,
                passes=len(tokens),
                drafted=0,
                accepted=0,
                tokens=len(tokens),
            ),
        )


class _TokenClock:
    """A streamer of transformers that only notes when each token came."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.arrivals: list[float] = []
        self._prompt_seen = False

    def put(self, value: Any) -> None:
        """Take new tokens; the first call brings the prompt."""
        if self._prompt_seen:
            self.arrivals.append(time.perf_counter())
        self._prompt_seen = True

    def end(self) -> None:
        """Take note that the last token has come, which needs no note."""


def from_tensors(config: DecoderConfig, source: TensorSource) -> Any:
    """Return transformers' causal LM in float32 with the tensors of a source.

    The rotary frequencies are set as they stand in `config`, so scaled variants need no translation.
    """
    import transformers

    values: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "rms_norm_eps": config.norm_eps,
        "max_position_embeddings": config.context_limit,
        "tie_word_embeddings": config.tied_embeddings,
    }
    if config.windows:
        raise CapabilityError(
            "--peer transformers does not build models with sliding windows from a GGUF file"
        )
    if config.family in ("llama", "qwen3"):
        values["attention_bias"] = config.output_bias or (config.family == "llama" and config.qkv_bias)
    if config.family == "llama":
        values["mlp_bias"] = config.mlp_bias
    if config.family == "mistral":
        values["sliding_window"] = None
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(config.family, **values), dtype=torch.float32
    )
    state = {name: source.get(name) for name in source.names()}
    if config.tied_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    rotary = model.model.rotary_emb
    rotary.inv_freq = torch.tensor(config.rope.inv_freq, dtype=torch.float32)
    rotary.attention_scaling = config.rope.scale
    return model


def _gguf_source(file: GGUFFile, config: DecoderConfig) -> GGUFSource:
    family = next(family for family in families() if family.name == config.family)
    if family.gguf_interleaved:
        return GGUFSource(file, heads=config.heads, kv_heads=config.kv_heads)
    return GGUFSource(file)
