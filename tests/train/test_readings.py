from __future__ import annotations

from pathlib import Path

import pytest
import torch

from outrider.errors import TrainingError
from outrider.llm import LLM
from outrider.train.readings import Reading, Readings
from outrider.train.teacher import Teacher
from outrider.train.texts import Texts

MUCH = 10**7


def same(one: Reading | None, other: Reading) -> bool:
    assert one is not None
    pairs = (
        (one.features, other.features),
        (one.laws.ids, other.laws.ids),
        (one.laws.probs, other.laws.probs),
    )
    return all(torch.equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def test_a_reading_is_the_same_whether_it_was_kept_or_not(llm: LLM, texts: Texts, tmp_path: Path) -> None:
    kept = Teacher(llm.model, top=5, captured=(2, 3), kept=Readings(tmp_path / "kept.bin", MUCH))
    anew = Teacher(llm.model, top=5, captured=(2, 3))
    for text in (*texts.learned[:3], *texts.learned[:3]):
        assert same(kept.read(text), anew.read(text))
        assert text in (kept.kept or ())


def test_laws_are_of_the_tokens_that_were_written_and_of_no_others(llm: LLM, texts: Texts) -> None:
    text = texts.learned[0]
    laws = Teacher(llm.model, top=5).read(text).laws
    told = {row + 1 for row in range(len(laws)) if float(laws.probs[row].sum())}
    assert told == {row for start, end in text.spans for row in range(max(start, 1), end)}


def test_what_is_kept_is_there_for_the_next_run_and_what_was_torn_or_damaged_is_not(
    llm: LLM, texts: Texts, tmp_path: Path
) -> None:
    path, teacher = tmp_path / "kept.bin", Teacher(llm.model, top=5, captured=(2,))
    found = [teacher.read(text) for text in texts.learned[:3]]
    first = Readings(path, MUCH)
    for text, reading in zip(texts.learned, found, strict=False):
        first.put(text, reading)
    first.close()
    data = bytearray(path.read_bytes())
    data[100] ^= 1  # in the first record
    path.write_bytes(data[:-1])  # the last one is torn
    again = Readings(path, MUCH)
    assert again.get(texts.learned[0]) is None
    assert same(again.get(texts.learned[1]), found[1])
    assert texts.learned[2] not in again
    again.put(texts.learned[2], found[2])
    again.close()
    assert same(Readings(path, MUCH).get(texts.learned[2]), found[2])


def test_a_full_disk_says_what_to_do(llm: LLM, texts: Texts, tmp_path: Path) -> None:
    full = tmp_path / "full.bin"
    full.symlink_to("/dev/full")
    kept = Readings(full, MUCH)
    with pytest.raises(TrainingError, match="make room"):
        kept.put(texts.learned[0], Teacher(llm.model, top=5, captured=(2,)).read(texts.learned[0]))
