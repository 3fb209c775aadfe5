from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from outrider.errors import CapabilityError, LoadError, OptionError, UnsupportedModelError
from outrider.loop.draft.layerskip import LayerSkipDrafter
from outrider.models.base import Batch
from outrider.models.hf import TransformersCache, TransformersTarget
from outrider.models.load import load_model

TEXT = (7, 3, 250, 41, 41, 8, 99, 120, 5, 64, 200, 31)
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "absolute positions": ("gpt2", {}),
    "alibi": ("bloom", {"num_key_value_heads": None}),
    "parallel blocks": ("gpt_neox", {}),
    "windows on some layers": (
        "gemma2",
        {"head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "windows on all layers": ("mistral", {"sliding_window": 4}),
    "chunks": ("phi3", {"sliding_window": 3, "pad_token_id": 0}),
    "experts": ("mixtral", {"num_local_experts": 4, "sliding_window": 5}),
}


def chain(
    target: TransformersTarget, cache: TransformersCache, tokens: tuple[int, ...], wanted: tuple[int, ...]
) -> torch.Tensor:
    rows, start = range(len(tokens)), cache.length
    batch = Batch(
        tokens, tuple(start + row for row in rows), (0,) * len(tokens), tuple(row - 1 for row in rows), wanted
    )
    return target.forward(batch, [cache])


@pytest.mark.parametrize("variant", OTHERS)
def test_a_rewound_cache_gives_the_logits_of_a_fresh_one(
    variant: str, tiny_model: Callable[..., Any]
) -> None:
    """Windows here are shorter than the text: the keys that a rollback needs must still be there."""
    model_type, options = OTHERS[variant]
    model = tiny_model(model_type, **options)
    target = TransformersTarget(model)
    with torch.no_grad():
        expected = model(torch.tensor([TEXT])).logits[0].float()
    cache = target.new_cache()
    found = [chain(target, cache, (*TEXT[:8], 1, 2, 3), tuple(range(8)))]
    cache.keep(range(8))
    for at in range(8, len(TEXT)):
        found.append(chain(target, cache, (TEXT[at], 9, 9), (0,)))
        cache.keep([0])
    assert cache.length == len(TEXT)
    assert cache.nbytes > 0
    torch.testing.assert_close(torch.cat(found), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    cache.truncate(2)
    again = chain(target, cache, TEXT[2:], (9,))
    torch.testing.assert_close(again[0], expected[-1], rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_sequences_of_a_batch_run_one_after_another(tiny_model: Callable[..., Any]) -> None:
    target = TransformersTarget(tiny_model("gpt2"))
    first, second = target.new_cache(), target.new_cache()
    batch = Batch((7, 3, 250, 41, 8), (0, 1, 0, 1, 2), (0, 0, 1, 1, 1), (-1, 0, -1, 2, 3), (4, 0, 1))
    logits = target.forward(batch, [first, second])
    alone = chain(target, target.new_cache(), (7, 3), (0, 1))
    other = chain(target, target.new_cache(), (250, 41, 8), (2,))
    assert logits.shape == (3, 300)
    torch.testing.assert_close(logits, torch.stack([other[0], alone[0], alone[1]]))


def test_trees_are_refused(tiny_model: Callable[..., Any]) -> None:
    target = TransformersTarget(tiny_model("gpt2"))
    assert not target.can_branch
    with pytest.raises(CapabilityError, match="chains only"):
        target.forward(Batch((7, 3, 4), (0, 1, 1), (0, 0, 0), (-1, 0, 0), (0,)), [target.new_cache()])


def test_drafts_without_some_layers_are_refused(tiny_model: Callable[..., Any]) -> None:
    target = TransformersTarget(tiny_model("gpt2"))
    with pytest.raises(CapabilityError, match="lean decoder"):
        LayerSkipDrafter.build(target, None, {"skip": "0"})


@pytest.mark.parametrize(
    ("model_type", "options", "says"),
    [
        ("mamba", {"state_size": 4}, "recurrent state"),
        ("rwkv", {"attention_hidden_size": 32}, "recurrent state"),
        ("bert", {"is_decoder": False}, "looks ahead|rewound"),
    ],
)
def test_models_that_cannot_be_rewound_are_refused_by_name(
    model_type: str, options: dict[str, Any], says: str, tiny_model: Callable[..., Any]
) -> None:
    with pytest.raises(UnsupportedModelError, match=says):
        TransformersTarget(tiny_model(model_type, **options))


def test_hybrids_of_attention_and_recurrence_are_refused(tiny_model: Callable[..., Any]) -> None:
    options = {"layer_types": ["linear_attention", "full_attention"], "head_dim": 16, "num_experts": 2}
    sizes = {
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        "num_experts_per_tok": 1,
    }
    with pytest.raises(UnsupportedModelError, match="recurrent state"):
        TransformersTarget(tiny_model("qwen3_next", **options, **sizes))


def test_encoder_decoders_are_refused() -> None:
    import transformers

    config = transformers.T5Config(vocab_size=50, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(UnsupportedModelError, match="encoder-decoder"):
        TransformersTarget(transformers.T5ForConditionalGeneration(config))


def test_a_state_that_no_flag_declares_is_found_by_trial(tiny_model: Callable[..., Any]) -> None:
    model = tiny_model("gpt2")
    seen: list[int] = []
    forward = model.forward

    def remembering(input_ids: Any, position_ids: Any = None, cache: Any = None, **rest: Any) -> Any:
        out = forward(input_ids=input_ids, position_ids=position_ids, cache=cache, **rest)
        seen.extend(input_ids[0].tolist())
        out.logits = out.logits + float(sum(seen))
        return out

    model.forward = remembering
    with pytest.raises(UnsupportedModelError, match=r"looks ahead|rolled-back"):
        TransformersTarget(model)


def test_longrope_is_run_only_as_far_as_its_frequencies_stay_the_same(tiny_model: Callable[..., Any]) -> None:
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4,
    }
    options = {"original_max_position_embeddings": 32, "pad_token_id": 0}
    target = TransformersTarget(tiny_model("phi3", rope_parameters=rope, **options))
    assert target.context_limit == 32
    assert any("longrope" in notice for notice in target.notices)


def test_other_architectures_load_through_transformers(
    tiny_model: Callable[..., Any], save: Callable[[Any, Path], Path], tmp_path: Path
) -> None:
    model = tiny_model("gpt2")
    loaded = load_model(save(model, tmp_path / "model"), device="cpu")
    assert isinstance(loaded.target, TransformersTarget)
    assert loaded.details["architecture"] == "GPT2LMHeadModel"
    assert loaded.details["kernel"].startswith("transformers ")
    with torch.no_grad():
        expected = model(torch.tensor([TEXT])).logits[0]
    found = chain(loaded.target, loaded.target.new_cache(), TEXT, tuple(range(len(TEXT))))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(OptionError, match="int8"):
        load_model(tmp_path / "model", weights="int8", device="cpu")
    half = load_model(tmp_path / "model", weights="fp16", device="cpu")
    assert half.details["weights"] == "fp16"


def test_a_variant_that_the_lean_decoder_lacks_loads_through_transformers(
    tiny_model: Callable[..., Any], save: Callable[[Any, Path], Path], tmp_path: Path
) -> None:
    model = tiny_model("llama", hidden_act="gelu")
    loaded = load_model(save(model, tmp_path / "model"), device="cpu")
    assert isinstance(loaded.target, TransformersTarget)
    assert any("hidden_act 'gelu'" in notice for notice in loaded.details["notices"])


def test_weights_that_transformers_would_fill_in_at_random_are_an_error(
    tiny_model: Callable[..., Any], save: Callable[[Any, Path], Path], tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    model = tiny_model("gpt2")
    model.save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    tensors = load_file(file)
    del tensors["transformer.h.0.attn.c_attn.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(LoadError, match=r"missing keys.*c_attn\.weight"):
        load_model(tmp_path / "model", device="cpu")


def test_the_precision_of_a_model_in_memory_is_its_own(
    tiny_model: Callable[..., Any], byte_level: Any
) -> None:
    import transformers

    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_level)
    with pytest.raises(OptionError, match="already in memory"):
        load_model(tiny_model("gpt2"), tokenizer=tokenizer, weights="fp16")
    loaded = load_model(tiny_model("gpt2"), tokenizer=tokenizer)
    assert loaded.details["weights"] == "fp32"
