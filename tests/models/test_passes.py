"""Which implementation of the pass runs, and what is said where it is the slower one."""

from __future__ import annotations

import sys

import pytest
import torch

from outrider.errors import CapabilityError, OptionError, UnknownNameError
from outrider.models.decoder import Decoder
from outrider.models.passes import Choice, build_decoder, check_pass
from outrider.native import why_missing
from tiny import RandomSource, tiny_config

CPU = torch.device("cpu")


@pytest.fixture
def not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "outrider.native._core", None)


def choose(implementation: str, weights: str = "fp32") -> tuple[object, list[str]]:
    config = tiny_config()
    return build_decoder(config, RandomSource(config), Choice(weights, CPU, implementation))


@pytest.mark.usefixtures("not_built")
def test_where_it_was_not_built_the_pytorch_pass_runs_and_one_notice_says_why() -> None:
    decoder, said = choose("auto")
    assert isinstance(decoder, Decoder)
    reason = "it was not built (no C++ compiler at install time?)"
    assert said == [f"running the slower PyTorch pass: {reason}"]
    assert why_missing() == reason


@pytest.mark.usefixtures("not_built")
def test_where_it_was_not_built_asking_for_it_by_name_is_an_error() -> None:
    with pytest.raises(CapabilityError, match=r"cannot run here: it was not built .*use the PyTorch pass"):
        choose("native")


def test_a_module_that_cannot_be_loaded_gives_the_linkers_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "outrider.native._core":
                raise ImportError("libstdc++.so.6: version `GLIBCXX_3.4.32' not found")

    monkeypatch.delitem(sys.modules, "outrider.native._core", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert why_missing() == "libstdc++.so.6: version `GLIBCXX_3.4.32' not found"


def test_the_pytorch_pass_by_name_is_no_news() -> None:
    decoder, said = choose("pytorch")
    assert isinstance(decoder, Decoder)
    assert said == []


@pytest.mark.skipif(why_missing() is not None, reason="the native pass was not built")
def test_the_native_pass_is_taken_where_it_can_be_and_on_a_cpu_only() -> None:
    decoder, said = choose("auto")
    assert type(decoder).__name__ == "NativeDecoder"
    assert said == []
    config = tiny_config()
    with pytest.raises(CapabilityError, match="it runs on a CPU, and the device is meta"):
        build_decoder(config, RandomSource(config), Choice("fp32", torch.device("meta"), "native"))


def test_the_environment_says_what_auto_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTRIDER_PASS", raising=False)
    assert check_pass("auto") == "auto"
    for value, meaning in (("pytorch", "pytorch"), ("native", "native"), ("", "auto"), ("auto", "auto")):
        monkeypatch.setenv("OUTRIDER_PASS", value)
        assert check_pass("auto") == meaning
        assert check_pass("native") == "native"  # a name that is given stands
    monkeypatch.setenv("OUTRIDER_PASS", "fast")
    with pytest.raises(OptionError, match="OUTRIDER_PASS must be auto, native or pytorch, not 'fast'"):
        check_pass("auto")
    with pytest.raises(UnknownNameError, match="did you mean 'pytorch'"):
        check_pass("pytroch")


@pytest.mark.skipif(why_missing() is not None, reason="no native pass here")
def test_an_instruction_set_can_be_named_and_a_wrong_name_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUTRIDER_ISA", "Portable")
    decoder, _ = choose("native")
    assert decoder.kernel == "native fp32 portable"  # type: ignore[attr-defined]
    monkeypatch.setenv("OUTRIDER_ISA", "avx1024")
    with pytest.raises(OptionError, match=r"OUTRIDER_ISA=avx1024: .*unset it"):
        choose("native")
