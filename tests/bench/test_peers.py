from __future__ import annotations

import pytest
import torch

from outrider.bench.peers import TransformersPeer, from_tensors
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
