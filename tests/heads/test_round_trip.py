"""A head that is saved and loaded again is the same head, bit for bit, in every spelling."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import HeadError, UnknownNameError
from outrider.heads.eagle import EagleConfig
from outrider.heads.eagle3 import Eagle3Config, Eagle3Head
from outrider.heads.exchange import load_head, save_head
from outrider.heads.formats.spelling import Head
from outrider.heads.layer import LayerConfig
from outrider.heads.medusa import MedusaConfig
from outrider.registry import HEAD_SPELLINGS
from tiny_heads import (
    ROPES,
    eagle3_config,
    eagle3_head,
    eagle_head,
    layer_config,
    medusa_heads,
)

EAGLE3 = ("specforge", "sglang", "speculators")
READ_AS = {"sglang": "specforge"}
"""SGLang's files are SpecForge's."""

TYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])


@st.composite
def layers(draw: st.DrawFn, **options: Any) -> LayerConfig:
    return LayerConfig(
        hidden_size=draw(st.integers(1, 6)),
        intermediate_size=draw(st.integers(1, 6)),
        heads=draw(st.sampled_from([2, 4])),
        kv_heads=draw(st.sampled_from([1, 2])),
        head_dim=draw(st.sampled_from([2, 4])),
        norm_eps=draw(st.sampled_from([1e-6, 1e-5])),
        rope_theta=draw(st.sampled_from([10000.0, 500000.0])),
        rope_scaling=draw(st.sampled_from(ROPES)),
        context_limit=draw(st.integers(1, 4096)),
        **options,
    )


@st.composite
def eagle3s(draw: st.DrawFn, speculators: bool) -> Eagle3Config:
    """Return a head that the spelling can say: only speculators' files say all that a head may have."""
    bias = speculators and draw(st.booleans())
    extra = {"qkv_bias": bias, "output_bias": bias, "qk_norm": speculators and draw(st.booleans())}
    layer = draw(layers(**extra))
    own = draw(st.booleans())
    vocab = draw(st.integers(1, 9))
    norm = draw(st.sampled_from(["none", "feature_norms", *(["input_norm"] if speculators else [])]))
    indices = st.lists(st.integers(0, 30), min_size=1, max_size=4, unique=True).map(sorted).map(tuple)
    return Eagle3Config(
        layer=layer,
        vocab_size=vocab,
        draft_vocab_size=draw(st.integers(1, vocab)),
        target_hidden_size=draw(st.integers(1, 6)) if own else layer.hidden_size,
        feature_layers=draw(st.none() | indices),
        norm_before_residual=speculators and draw(st.booleans()),
        feature_norms=norm == "feature_norms",
        input_norm=norm == "input_norm",
        feed_normed=draw(st.booleans()),
        own_embedding=own,
    )


def returned(head: Head, spelling: str, dtype: torch.dtype | None = None) -> Head:
    """Return the head after its way through a directory."""
    with tempfile.TemporaryDirectory() as place:
        save_head(head, Path(place) / "head", spelling, target="some/model")
        assert [path.name for path in Path(place).iterdir()] == ["head"], "nothing is left beside it"
        loaded = load_head(Path(place) / "head", dtype=dtype)
    assert loaded.spelling == READ_AS.get(spelling, spelling)
    return loaded.head


def check_same(one: Head, other: Head) -> None:
    assert type(one) is type(other)
    assert one.config == other.config
    ours, theirs = one.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype, name
        assert torch.equal(tensor, theirs[name]), name
        assert theirs[name].device.type == "cpu"


@pytest.mark.parametrize("spelling", EAGLE3)
@given(data=st.data())
@settings(max_examples=25)
def test_an_eagle3_head_comes_back(spelling: str, data: st.DataObject) -> None:
    head = eagle3_head(data.draw(eagle3s(spelling == "speculators"))).to(data.draw(TYPES))
    check_same(head, returned(head, spelling))


@pytest.mark.parametrize("spelling", ["eagle", "eagle-vllm"])
@given(data=st.data())
@settings(max_examples=25)
def test_an_eagle_head_comes_back(spelling: str, data: st.DataObject) -> None:
    vllm = spelling == "eagle-vllm"
    config = EagleConfig(
        layer=data.draw(
            st.booleans().flatmap(
                lambda bias: st.sampled_from([True, False]).flatmap(
                    lambda qkv: layers(qkv_bias=qkv, output_bias=vllm and bias)
                )
            )
        ),
        vocab_size=data.draw(st.integers(1, 9)),
        fusion_bias=not vllm and data.draw(st.booleans()),
        input_norms=vllm and data.draw(st.booleans()),
        own_embedding=data.draw(st.booleans()),
    )
    head = eagle_head(config).to(data.draw(TYPES))
    check_same(head, returned(head, spelling))


@pytest.mark.parametrize("spelling", ["medusa", "medusa-pt", "medusa-vllm"])
@given(data=st.data())
@settings(max_examples=25)
def test_medusa_heads_come_back(spelling: str, data: st.DataObject) -> None:
    vllm = spelling == "medusa-vllm"
    vocab = data.draw(st.integers(2, 9))
    config = MedusaConfig(
        hidden_size=data.draw(st.integers(1, 6)),
        vocab_size=vocab,
        heads=data.draw(st.integers(1, 3)),
        blocks=data.draw(st.integers(1, 3)) if vllm else 1,
        block_bias=not vllm or data.draw(st.booleans()),
        shared_output=vllm and data.draw(st.booleans()),
        draft_vocab_size=data.draw(st.none() | st.integers(1, vocab - 1)) if vllm else None,
    )
    heads = medusa_heads(config).to(data.draw(TYPES))
    check_same(heads, returned(heads, spelling))


def test_every_spelling_is_tried_above() -> None:
    assert set(HEAD_SPELLINGS) == {*EAGLE3, "eagle", "eagle-vllm", "medusa", "medusa-pt", "medusa-vllm"}


def test_a_head_changes_its_spelling_and_stays_the_same() -> None:
    head = eagle3_head(feature_layers=(1, 4, 9), feature_norms=True, feed_normed=True)
    for spelling in (*EAGLE3, *EAGLE3):
        again = returned(head, spelling)
        check_same(head, again)
        head = again  # type: ignore[assignment]


def test_weights_are_loaded_in_the_type_that_is_asked_for(tmp_path: Path) -> None:
    head = eagle3_head().to(torch.bfloat16)
    save_head(head, tmp_path / "head", "specforge")
    wide = load_head(tmp_path / "head").head
    assert {weight.dtype for weight in wide.parameters()} == {torch.float32}
    for name, weight in wide.named_parameters():
        assert torch.equal(weight, head.state_dict()[name].float())
    assert {w.dtype for w in load_head(tmp_path / "head", dtype=torch.float16).head.parameters()} == {
        torch.float16
    }


def test_a_loaded_head_can_go_on_learning(tmp_path: Path) -> None:
    save_head(medusa_heads(), tmp_path / "head", "medusa-vllm")
    heads = load_head(tmp_path / "head").head
    heads(torch.randn(2, 12)).square().sum().backward()
    assert all(weight.grad is not None for weight in heads.parameters())


@pytest.mark.parametrize(
    ("head", "spelling", "says"),
    [
        (
            eagle3_head(norm_before_residual=True),
            "specforge",
            "norm_before_residual.*save it as 'speculators'",
        ),
        (eagle3_head(input_norm=True), "sglang", "norm of all features.*SGLang files"),
        (eagle3_head(layer=layer_config(qk_norm=True)), "specforge", "norms of queries and keys"),
        (eagle3_head(layer=layer_config(qkv_bias=True)), "sglang", "biases in its attention"),
        (eagle3_head(layer=layer_config(qkv_bias=True)), "speculators", "all four projections at once"),
        (eagle_head(fusion_bias=True), "eagle-vllm", "save the head as 'eagle'"),
        (eagle_head(input_norms=True), "eagle", "save the head as 'eagle-vllm'"),
        (eagle_head(layer=layer_config(output_bias=True)), "eagle", "no bias after attention"),
        (medusa_heads(shared_output=True), "medusa", "one output matrix for all"),
        (medusa_heads(draft_vocab_size=9), "medusa-pt", "a draft vocabulary"),
        (medusa_heads(block_bias=False), "medusa", "blocks without a bias"),
        (medusa_heads(blocks=2), "medusa", "blocks that differ within a head"),
    ],
)
def test_what_a_spelling_cannot_say_is_refused_and_nothing_is_written(
    head: Head, spelling: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(HeadError, match=says):
        save_head(head, tmp_path / "head", spelling, target="some/model")
    assert list(tmp_path.iterdir()) == []


def test_the_first_tokens_are_no_draft_vocabulary_to_be_saved(tmp_path: Path) -> None:
    """Their map is all zeros, and a file with such a map is not loaded, since it may have been lost."""
    head = Eagle3Head(eagle3_config(), torch.arange(11))
    with pytest.raises(HeadError, match="first 11 tokens, so d2t would be all zeros"):
        save_head(head, tmp_path / "head", "specforge")


def test_blocks_that_are_one_block_can_be_saved_for_the_code_that_makes_only_one(tmp_path: Path) -> None:
    heads = medusa_heads(blocks=2)
    for blocks in heads.blocks:
        first, second = blocks.children()
        second.load_state_dict(first.state_dict())
    check_same(heads, returned(heads, "medusa"))


@pytest.mark.parametrize("spelling", ["speculators", "medusa"])
def test_spellings_that_name_the_target_ask_for_it(spelling: str, tmp_path: Path) -> None:
    head = eagle3_head() if spelling == "speculators" else medusa_heads()
    with pytest.raises(HeadError, match="say which"):
        save_head(head, tmp_path / "head", spelling)


def test_a_spelling_of_another_kind_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadError, match="'medusa' is a spelling of medusa heads; this is an eagle3 head"):
        save_head(eagle3_head(), tmp_path / "head", "medusa")
    with pytest.raises(UnknownNameError, match="did you mean 'specforge'"):
        save_head(eagle3_head(), tmp_path / "head", "spec-forge")


@pytest.mark.parametrize(
    ("spelling", "feed_normed", "said"),
    [
        ("specforge", False, None),
        ("specforge", True, True),
        ("sglang", False, False),
        ("sglang", True, True),
        ("speculators", False, False),
        ("speculators", True, True),
    ],
)
def test_norm_output_is_said_as_its_reader_understands_it(
    spelling: str, feed_normed: bool, said: bool | None, tmp_path: Path
) -> None:
    save_head(eagle3_head(feed_normed=feed_normed), tmp_path / "head", spelling, target="some/model")
    config = json.loads((tmp_path / "head" / "config.json").read_text())
    assert config.get("norm_output") is said


@pytest.mark.parametrize(
    ("spelling", "written"), [("specforge", [1, 4, 9]), ("sglang", [1, 4, 9]), ("speculators", [2, 5, 10])]
)
def test_layers_are_counted_as_their_reader_counts_them(
    spelling: str, written: list[int], tmp_path: Path
) -> None:
    """SpecForge and SGLang name the layer whose output is meant, speculators and vLLM the one after it."""
    save_head(eagle3_head(feature_layers=(1, 4, 9)), tmp_path / "head", spelling, target="some/model")
    config = json.loads((tmp_path / "head" / "config.json").read_text())
    place = config if spelling == "speculators" else config["eagle_config"]
    assert place["eagle_aux_hidden_state_layer_ids"] == written
