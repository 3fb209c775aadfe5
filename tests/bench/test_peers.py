from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import outrider.bench.peers.transformers as module
from outrider.bench.peers.transformers import TransformersPeer, from_tensors
from outrider.errors import CapabilityError, OptionError
from outrider.models.config import DecoderConfig
from outrider.models.families.base import Family
from outrider.models.source import StateDictSource
from outrider.registry import FAMILIES
from outrider.sampling.params import SamplingParams

transformers = pytest.importorskip("transformers")

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "head_dim": 8,
}


class EndsAt:
    def __init__(self, *tokens: int) -> None:
        self.eos_ids = frozenset(tokens)

    def decode(self, tokens: tuple[int, ...]) -> str:
        return " ".join(map(str, tokens))


def random_model(family: str, **values: object) -> torch.nn.Module:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **SHAPE, **values)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_built_from_tensors_is_the_model_they_came_from(family: str, tied: bool) -> None:
    extra = {"sliding_window": None} if family == "mistral" else {}
    model = random_model(
        family,
        tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
        **extra,
    )
    config = FAMILIES.load(family).from_hf(model.config.to_dict())
    state = {k: v for k, v in model.state_dict().items() if not (tied and k == "lm_head.weight")}
    built = from_tensors(config, StateDictSource(state))
    ids = torch.arange(10)[None]
    with torch.no_grad():
        assert torch.equal(built.eval()(ids).logits, model(ids).logits)


def test_a_peer_is_greedy_and_counts_decode_time_after_the_first_token() -> None:
    model = random_model("llama")
    peer = TransformersPeer(model, EndsAt(), 128)
    result = peer.generate([1, 2, 3], SamplingParams(max_tokens=9))
    ids = [1, 2, 3]
    with torch.no_grad():
        for _ in range(9):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    assert result.token_ids == tuple(ids[3:])
    assert result.finish_reason == "length"
    assert result.timing.decode_tokens == 8
    assert result.timing.decode_seconds > 0
    assert result.timing.prefill_seconds > 0


def test_a_peer_stops_at_end_tokens_unless_they_are_ignored_and_at_the_context() -> None:
    model = random_model("llama")
    free = TransformersPeer(model, EndsAt(), 128).generate([1, 2, 3], SamplingParams(max_tokens=9))
    end = free.token_ids[4]
    peer = TransformersPeer(model, EndsAt(end), 12)
    stopped = peer.generate([1, 2, 3], SamplingParams(max_tokens=9))
    assert stopped.token_ids == free.token_ids[: free.token_ids.index(end) + 1]
    assert stopped.finish_reason == "stop"
    ignoring = peer.generate([1, 2, 3, 4], SamplingParams(max_tokens=50, ignore_eos=True))
    assert ignoring.completion_tokens == 8


def test_transformers_takes_no_weights_after_its_name() -> None:
    with pytest.raises(OptionError, match=r"float32 only; drop ':f16'"):
        TransformersPeer.build("demo", SimpleNamespace(), "f16")  # type: ignore[arg-type]


class LeanTarget:
    """Another implementation of the lean decoder: a configuration, and nothing else in common."""

    context_limit = 128

    def __init__(self, config: DecoderConfig) -> None:
        self.config = config


def test_any_target_with_a_decoder_configuration_is_built_from_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = random_model("llama")
    config = FAMILIES.load("llama").from_hf(model.config.to_dict())
    monkeypatch.setattr(module, "locate", lambda name: tmp_path / name)
    monkeypatch.setattr(module, "GGUFFile", lambda path: path)
    monkeypatch.setattr(Family, "gguf_source", lambda *_: StateDictSource(model.state_dict()))
    loaded = SimpleNamespace(target=LeanTarget(config), tokenizer=EndsAt())
    peer = TransformersPeer.build("model.gguf", loaded, None)  # type: ignore[arg-type]
    params = SamplingParams(max_tokens=5)
    own = TransformersPeer(model, EndsAt(), 128).generate([1, 2, 3], params)
    assert peer.generate([1, 2, 3], params).token_ids == own.token_ids
    loaded.target.config = None
    with pytest.raises(CapabilityError, match=r"cannot read model.gguf"):
        TransformersPeer.build("model.gguf", loaded, None)  # type: ignore[arg-type]
