"""transformers' own `generate`, greedy, in float32."""

from __future__ import annotations

from typing import Any

import torch

from outrider.bench.peers.base import TokenClock, end_tokens, most_tokens, peer_result
from outrider.engine.result import Result
from outrider.errors import CapabilityError, LoadError, OptionError
from outrider.models.base import LoadedModel, Tokenizer
from outrider.models.config import DecoderConfig
from outrider.models.gguf_file import GGUFFile
from outrider.models.load import families
from outrider.models.locate import locate
from outrider.models.source import TensorSource
from outrider.sampling.params import SamplingParams


class TransformersPeer:
    """`generate` of transformers, greedy, in float32, with the weights of the loaded model."""

    name = "transformers"

    def __init__(self, model: Any, tokenizer: Tokenizer, context_limit: int) -> None:
        self._model, self._tokenizer, self._context_limit = model, tokenizer, context_limit

    @classmethod
    def build(cls, model: str, loaded: LoadedModel, weights: str | None) -> TransformersPeer:
        """Load the model called `model` once more, into transformers.

        LoadError where transformers is not installed; OptionError where weights are asked for;
        CapabilityError for a GGUF file that the lean decoder does not run.
        """
        if weights is not None:
            raise OptionError(f"--peer transformers runs in float32 only; drop ':{weights}'")
        try:
            import transformers
        except ImportError as error:
            raise LoadError(
                '--peer transformers needs transformers: pip install "transformers>=5.0"'
            ) from error
        transformers.utils.logging.disable_progress_bar()
        path = locate(model)
        config = getattr(loaded.target, "config", None)
        if path.is_dir():
            built = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        elif isinstance(config, DecoderConfig):
            family = next(family for family in families() if family.name == config.family)
            built = from_tensors(config, family.gguf_source(GGUFFile(path), config))
        else:
            raise CapabilityError(
                f"--peer transformers cannot read {path.name}; give a Hugging Face directory"
            )
        return cls(built.eval(), loaded.tokenizer, loaded.target.context_limit)

    @torch.inference_mode()
    def generate(self, prompt: list[int], params: SamplingParams) -> Result:
        """Return the result for one prompt; decode time runs from its first token to its last."""
        count = most_tokens(prompt, params, self._context_limit)
        clock = TokenClock()
        output = self._model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=count,
            do_sample=False,
            eos_token_id=sorted(end_tokens(self._tokenizer, params)) or None,
            pad_token_id=0,
            streamer=_ClockStreamer(clock),
        )
        tokens = [int(token) for token in output[0, len(prompt) :]]
        return peer_result(self.name, self._tokenizer, prompt, tokens, clock, params)


class _ClockStreamer:
    """A streamer of transformers that only notes when each token came."""

    def __init__(self, clock: TokenClock) -> None:
        self._clock = clock
        self._prompt_seen = False

    def put(self, value: Any) -> None:
        """Take new tokens; the first call brings the prompt."""
        if self._prompt_seen:
            self._clock.tick()
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
