"""A head that was made for another target says so, with both numbers."""

from __future__ import annotations

import pytest

from outrider.errors import HeadError
from outrider.heads.fit import HeadConfig, check_fits
from tiny import tiny_config
from tiny_heads import eagle3_config, eagle_config, medusa_config

TARGET = tiny_config(hidden=12, vocab=30, layers=8)


@pytest.mark.parametrize(
    "config",
    [
        eagle3_config(),
        eagle3_config(feature_layers=(0, 3, 7)),
        eagle3_config(vocab_size=30, target_hidden_size=12, own_embedding=True),
        eagle_config(),
        medusa_config(draft_vocab_size=9),
    ],
)
def test_a_head_fits_the_target_it_was_made_for(config: HeadConfig) -> None:
    check_fits(config, TARGET)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (eagle3_config(vocab_size=31), "expects 31 tokens in the vocabulary, and the target at hand has 30"),
        (eagle_config(vocab_size=29), "expects 29 tokens .* has 30"),
        (medusa_config(vocab_size=300), "expects 300 tokens .* has 30"),
        (
            eagle3_config(target_hidden_size=8, own_embedding=True),
            "expects 8 numbers in a hidden state, and the target at hand has 12",
        ),
        (medusa_config(hidden_size=16), "expects 16 numbers in a hidden state.* has 12"),
        (eagle3_config(feature_layers=(1, 2, 8)), "output of layer 8, but the target's last layer is 7"),
    ],
)
def test_a_head_for_another_target_is_refused_with_both_numbers(config: HeadConfig, says: str) -> None:
    with pytest.raises(HeadError, match=says):
        check_fits(config, TARGET)


def test_a_target_of_too_few_layers_for_the_usual_features_is_refused() -> None:
    with pytest.raises(HeadError, match="6 layers has no usual feature layers"):
        check_fits(eagle3_config(), tiny_config(hidden=12, vocab=30, layers=6))
