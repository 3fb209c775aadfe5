from __future__ import annotations

from pathlib import Path

import pytest
import torch

from outrider.errors import OptionError
from outrider.llm import LLM
from outrider.models.checkpoint import open_checkpoint
from outrider.train.own_texts import OwnTexts
from outrider.train.store import Example
from outrider.train.student import Student, choose_layers
from outrider.train.teacher import Teacher
from outrider.train.texts import batches, cropped, padded, parted, written
from tiny_training import texts_of


def test_layers_are_named_one_by_one_or_counted_from_both_ends() -> None:
    assert choose_layers("0,3,5", 8) == (0, 3, 5)
    assert choose_layers("5", 8) == (0, 1, 2, 6, 7)
    assert choose_layers("8", 8) == tuple(range(8))
    assert choose_layers("1", 8) == (0,)
    for wrong in ("0", "9", "1,1", "3,1", "-1,2", "x", "0,8"):
        with pytest.raises(OptionError):
            choose_layers(wrong, 8)


def test_a_student_of_all_layers_is_the_target(llm: LLM, target_directory: Path) -> None:
    student = Student(open_checkpoint(str(target_directory)), range(8))
    tokens = tuple(llm.encode("say x", chat=True))
    with torch.no_grad():
        found = student.logits(student.states(torch.tensor([tokens]))).softmax(-1)[0]
    laws = Teacher(llm.model, top=260).read(Example(tokens, ((0, len(tokens)),))).laws[: len(tokens) - 1]
    torch.testing.assert_close(found[:-1].gather(1, laws.ids.long()), laws.probs, rtol=1e-3, atol=1e-4)


def test_own_texts_are_the_students_answers_to_the_same_prompts(
    llm: LLM, target_directory: Path, data: Path
) -> None:
    """Prompts stay as they are, and what was written goes on with a run."""
    texts = texts_of(llm, data).learned
    own = OwnTexts(llm.model, texts, share=1.0, count=5, every=10)
    own.begin_step(0, Student(open_checkpoint(str(target_directory)), range(3)))
    mixed = own.mixed(texts[:4], 0)
    prompts = {text.tokens[: text.spans[-1][0]] for text in texts}
    assert all(text.tokens[: text.spans[0][0]] in prompts for text in mixed)
    assert all(text not in texts for text in mixed)
    again = OwnTexts(llm.model, texts, share=1.0, count=5, every=10)
    again.take_state(own.state())
    assert again.mixed(texts[:4], 7) == own.mixed(texts[:4], 7)


def test_a_text_too_long_is_cut_at_its_beginning() -> None:
    text = Example(tuple(range(10)), ((2, 4), (5, 10)))
    assert cropped(text, 6) == Example((4, 5, 6, 7, 8, 9), ((1, 6),))
    assert cropped(text, 7) == Example((3, 4, 5, 6, 7, 8, 9), ((0, 1), (2, 7)))
    assert written([text, Example((1, 2), ((1, 2),))]).int().tolist() == [
        [0, 0, 1, 1, 0, 1, 1, 1, 1, 1],
        [0, 1] + [0] * 8,
    ]
    assert padded([Example((1, 2, 3), ()), Example((4,), ())]).tolist() == [[1, 2, 3], [4, 0, 0]]


def test_every_text_comes_once_an_epoch_and_none_is_in_both_parts() -> None:
    lengths = [7 + (5 * i) % 13 for i in range(103)]
    for epoch in range(2):
        order = batches(lengths, 4, seed=1, epoch=epoch)
        assert sorted(index for batch in order for index in batch) == list(range(103))
        assert order == batches(lengths, 4, seed=1, epoch=epoch)
    assert batches(lengths, 4, seed=1, epoch=0) != batches(lengths, 4, seed=1, epoch=1)
    texts = parted([Example((i, 1, 2), ((0, 3),)) for i in range(50)], length=8, held=7, seed=0)
    assert (len(texts.learned), len(texts.held)) == (43, 7)
    assert not set(texts.learned) & set(texts.held)
