"""Small work stays on one thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from outrider.sampling.threads import one_thread


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_the_number_of_threads_is_put_back_even_after_an_error() -> None:
    """OpenMP's second thread used to spin on after a draw, and the next native pass took twice as long."""
    with one_thread():
        assert torch.get_num_threads() == 1
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == 3
