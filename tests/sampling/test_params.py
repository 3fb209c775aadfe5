"""The options of a request are checked when they are built."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from outrider.errors import OptionError
from outrider.sampling.params import SamplingParams


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("temperature", -0.1, ">= 0"),
        ("temperature", math.nan, "finite"),
        ("temperature", math.inf, "finite"),
        ("temperature", 10**400, "finite"),
        ("temperature", True, "finite"),
        ("temperature", "1", "finite"),
        ("temperature", None, "finite"),
        ("top_k", -1, ">= 0"),
        ("top_k", 1.5, "whole"),
        ("top_k", False, "whole"),
        ("top_p", 0.0, "0 < top_p <= 1"),
        ("top_p", 1.01, "0 < top_p <= 1"),
        ("top_p", math.nan, "0 < top_p <= 1"),
        ("min_p", -0.01, "from 0 to 1"),
        ("min_p", 1.01, "from 0 to 1"),
        ("seed", 2**64, "64-bit"),
        ("seed", -(2**63) - 1, "64-bit"),
        ("seed", 1.0, "64-bit"),
        ("max_tokens", 0, ">= 1"),
        ("max_tokens", True, "whole"),
        ("stop", "", "non-empty"),
        ("stop", ["a", ""], "non-empty"),
        ("stop", [1], "non-empty"),
        ("stop", b"a", "non-empty"),
        ("stop", 7, "non-empty"),
        ("stop_token_ids", [-1], "token ids"),
        ("stop_token_ids", [True], "token ids"),
        ("stop_token_ids", "12", "token ids"),
        ("stop_token_ids", 3, "token ids"),
        ("ignore_eos", 1, "True or False"),
        ("typical_p", 0.0, "0 < typical_p <= 1"),
        ("typical_p", 1.5, "0 < typical_p <= 1"),
        ("repetition_penalty", 0.0, "> 0"),
        ("repetition_penalty", math.inf, "> 0"),
        ("presence_penalty", 2.1, "from -2 to 2"),
        ("frequency_penalty", -2.1, "from -2 to 2"),
        ("frequency_penalty", math.nan, "from -2 to 2"),
        ("no_repeat_ngram_size", -1, ">= 0"),
        ("no_repeat_ngram_size", 2.0, "whole"),
        ("logit_bias", {-1: 1.0}, "by token id"),
        ("logit_bias", {"5": 1.0}, "by token id"),
        ("logit_bias", {5: "1"}, "by token id"),
        ("logit_bias", {5: -math.inf}, "banned_tokens"),
        ("logit_bias", [5], "by token id"),
        ("logit_bias", 5, "by token id"),
        ("logit_bias", [(5, 1.0), (5, 2.0)], "once"),
        ("allowed_tokens", (), "at least one"),
        ("allowed_tokens", [-1], "token ids"),
        ("banned_tokens", [1.5], "token ids"),
        ("banned_words", [""], "non-empty"),
        ("logits_processors", [3], "functions"),
        ("logits_processors", "f", "functions"),
        ("n", 0, "from 1 to 128"),
        ("n", 129, "from 1 to 128"),
        ("n", 10**9, "from 1 to 128"),
        ("n", 1.0, "whole"),
        ("best_of", 0, "from n (1) to 128"),
        ("best_of", 129, "from n (1) to 128"),
        ("logprobs", 21, "from 0 to 20"),
        ("logprobs", -1, "from 0 to 20"),
        ("logprobs", True, "whole"),
        ("prompt_logprobs", 21, "from 0 to 20"),
        ("logprobs_of", "cooked", "'raw' or 'processed'"),
        ("min_tokens", -1, ">= 0"),
        ("min_tokens", True, "whole"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_option_the_value_and_the_range(
    option: str, value: Any, allowed: str
) -> None:
    with pytest.raises(OptionError) as refusal:
        SamplingParams(**{option: value})
    message = str(refusal.value)
    assert message.startswith(f"{option}={value!r}")
    assert allowed in message


@pytest.mark.parametrize("stop", ["end", ["end"], ("end",)])
def test_stop_texts_may_be_one_or_several(stop: Any) -> None:
    assert SamplingParams(stop=stop).stop == ("end",)


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(OptionError, match="token 4 stands in both allowed_tokens and banned_tokens"):
        SamplingParams(allowed_tokens=(3, 4), banned_tokens=(4, 5))
    with pytest.raises(OptionError, match="min_tokens=9 is more than max_tokens=8"):
        SamplingParams(min_tokens=9, max_tokens=8)
    SamplingParams(min_tokens=9, max_tokens=None)
    with pytest.raises(OptionError, match=r"best_of=2 is not allowed; give a whole number from n \(3\)"):
        SamplingParams(n=3, best_of=2)
    with pytest.raises(OptionError, match="logprobs_of='processed' says of what logprobs are, and none"):
        SamplingParams(logprobs_of="processed", prompt_logprobs=2)


def test_biases_are_kept_in_order_of_id_and_can_be_given_again() -> None:
    params = SamplingParams(logit_bias={7: 1, 2: -0.5})
    assert params.logit_bias == ((2, -0.5), (7, 1.0))
    assert dataclasses.replace(params, top_k=3).logit_bias == params.logit_bias
    assert hash(params) == hash(SamplingParams(logit_bias=[(2, -0.5), (7, 1)]))  # type: ignore[arg-type]


def test_values_at_the_edges_of_the_ranges_are_accepted() -> None:
    SamplingParams(temperature=0, top_k=0, top_p=1, min_p=0, seed=-(2**63), max_tokens=1)
    SamplingParams(temperature=1e-300, top_k=10**9, top_p=1e-9, min_p=1, seed=2**64 - 1, max_tokens=None)


def test_options_cannot_be_changed_afterwards() -> None:
    params = SamplingParams()
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.temperature = 1.0  # type: ignore[misc]
    assert params.greedy
    assert not dataclasses.replace(params, temperature=0.5).greedy
