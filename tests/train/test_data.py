"""Training texts: what is written, in which order, and what a kill leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import outrider
from outrider.errors import CapabilityError, LoadError, OptionError, TrainingError, VocabularyError
from outrider.llm import LLM
from outrider.train import store as module
from outrider.train.candidate import Writing
from outrider.train.generate import Written, open_data, write_data
from outrider.train.prompts import Conversation, PromptFile, read_prompts
from outrider.train.store import Example, Store
from tiny_target import write_target

SHORT = Writing(max_tokens=12, own_prompt=60, temperatures=(0.0, 1.0))
FOUR = PromptFile(tuple(Conversation((text,)) for text in ("a", "b", "a", "c")), "four")


def example(number: int) -> Example:
    return Example((number, 2, 3, number), ((1, 2), (3, 4)))


def test_a_store_gives_back_what_was_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARD_RECORDS", 3)
    store = Store.create(tmp_path / "store", {})
    records = [example(0), None, example(2), example(3), None, example(5), example(6)]
    for record in records:
        store.append(record)
    store.close()
    assert Store(tmp_path / "store").records == records
    assert len(list((tmp_path / "store").glob("*.shard"))) == 3


@pytest.mark.parametrize("lost", range(1, 60, 7))
def test_a_torn_end_is_dropped_and_written_anew(lost: int, tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store", {})
    for number in range(3):
        store.append(example(number))
    store.close()
    (shard,) = (tmp_path / "store").glob("*.shard")
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-lost])
    assert Store(tmp_path / "store").torn > 0
    again = Store(tmp_path / "store", writable=True)
    for number in range(len(again), 3):
        again.append(example(number))
    again.close()
    assert shard.read_bytes() == whole


@pytest.mark.parametrize("fault", ["cut", "flipped", "missing"])
def test_damage_in_the_middle_is_an_error_that_says_what_to_do(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARD_RECORDS", 2)
    store = Store.create(tmp_path / "store", {})
    for number in range(5):
        store.append(example(number))
    store.close()
    shard = tmp_path / "store" / "00001.shard"
    data = bytearray(shard.read_bytes())
    if fault == "missing":
        shard.unlink()
    else:
        data[20] ^= 1
        shard.write_bytes(bytes(data) if fault == "flipped" else bytes(data[: len(data) // 2]))
    with pytest.raises(LoadError, match=r"remove .* and every later shard and run the same command again"):
        Store(tmp_path / "store")


def test_data_that_was_stopped_goes_on_to_the_same_texts(llm: LLM, tmp_path: Path) -> None:
    """The target writes the prompts as well; three at a time, so that texts end out of order."""
    whole = write_data(llm, tmp_path / "whole", SHORT, count=12, running=3)
    assert len(whole.examples) == 12

    def stop(written: Written) -> None:
        if written.examples == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_data(llm, tmp_path / "parts", SHORT, count=12, running=2, report=stop)
    (shard,) = (tmp_path / "parts").glob("*.shard")
    shard.write_bytes(shard.read_bytes()[:-3])
    parts = write_data(llm, tmp_path / "parts", SHORT, count=12, running=4)
    assert parts.records == whole.records
    assert write_data(llm, tmp_path / "parts", SHORT, count=12).records == whole.records


def test_prompts_that_say_the_same_are_answered_once(llm: LLM, tmp_path: Path) -> None:
    store = write_data(llm, tmp_path / "store", SHORT, prompts=FOUR)
    assert [record is None for record in store.records] == [False, False, True, False]


def test_the_spans_are_what_the_target_wrote(llm: LLM, tmp_path: Path) -> None:
    """Two turns of one conversation: both answers, and nothing of the template or the user."""
    slow = Writing(max_tokens=9, temperatures=(0.0,))
    two = PromptFile((Conversation(("first", "second"), "be brief"),), "two")
    (found,) = write_data(llm, tmp_path / "store", slow, prompts=two).examples
    prompt = llm.encode([{"role": "system", "content": "be brief"}, {"role": "user", "content": "first"}])
    answer = llm.generate(prompt, max_tokens=9, temperature=0.0)
    start, end = found.spans[-1]
    assert found.tokens[start:end] == llm.generate(list(found.tokens[:start]), max_tokens=9).token_ids
    assert found.spans[0] == (len(prompt), len(prompt) + 9)
    assert found.tokens[slice(*found.spans[0])] == answer.token_ids


def test_a_store_goes_on_only_as_it_was_begun(llm: LLM, tmp_path: Path) -> None:
    write_data(llm, tmp_path / "store", SHORT, prompts=FOUR, count=1)
    with pytest.raises(OptionError, match="seed was 0"):
        write_data(llm, tmp_path / "store", replace(SHORT, seed=1), prompts=FOUR)
    with pytest.raises(OptionError, match="another prompts"):
        write_data(llm, tmp_path / "store", SHORT, count=4)
    with pytest.raises(OptionError, match="is there already"):
        write_data(llm, tmp_path, SHORT, count=4)


def test_texts_of_another_vocabulary_are_refused(llm: LLM, data: Path, tmp_path: Path) -> None:
    assert len(open_data(data, llm.model)) == 24
    other = write_target(tmp_path / "other", tokens={"<|user|>": "<|human|>"})
    with pytest.raises(VocabularyError, match="make data with this target"):
        open_data(data, outrider.load(str(other)).model)


def test_a_base_model_writes_texts_only_where_something_stands_before_them(tmp_path: Path) -> None:
    base = outrider.load(str(write_target(tmp_path / "base", template=None)))
    with pytest.raises(CapabilityError, match="--prompts FILE"):
        write_data(base, tmp_path / "store", SHORT, count=2)
    prompts = PromptFile((Conversation(("abc",)),), "one")
    (found,) = write_data(base, tmp_path / "store", SHORT, prompts=prompts).examples
    assert found.spans == ((3, 15),)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("records", [1, 256])
def test_a_full_disk_ends_the_writing_with_what_to_do(
    records: int, llm: LLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few small records fill no buffer: the disk says so only when the file is closed."""
    monkeypatch.setattr(module, "SHARD_RECORDS", records)
    shard = tmp_path / "store" / "00000.shard"

    def fill(_: Written) -> None:
        if not shard.is_symlink():
            shard.symlink_to("/dev/full")  # before anything is written

    with pytest.raises(TrainingError, match=r"No space left on device.*run the same command again"):
        write_data(llm, tmp_path / "store", SHORT, prompts=FOUR, report=fill)
    shard.unlink()
    assert len(write_data(llm, tmp_path / "store", SHORT, prompts=FOUR)) == len(FOUR.conversations)


def test_prompts_are_read_in_each_format(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    said = [("system", "brief"), ("user", "one"), ("assistant", "no"), ("user", "two")]
    row = {"messages": [{"role": role, "content": text} for role, text in said]}
    file.write_text(json.dumps(row), encoding="utf-8")
    assert read_prompts(file).conversations == (Conversation(("one", "two"), "brief"),)
    file.write_text(json.dumps({"question_id": 1, "category": "qa", "turns": ["x", "y"]}), encoding="utf-8")
    assert read_prompts(file).conversations == (Conversation(("x", "y")),)
    lines = tmp_path / "prompts.txt"
    lines.write_text("first\n\nsecond\n", encoding="utf-8")
    assert [one.turns for one in read_prompts(lines).conversations] == [("first",), ("second",)]


@pytest.mark.parametrize(
    "row",
    [
        '{"messages": []}',
        '{"messages": [{"role": "tool", "content": "x"}]}',
        '{"messages": 3',
        '{"prompt": "messages"}',
    ],
)
def test_a_malformed_line_is_named(row: str, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    good = json.dumps({"messages": [{"role": "user", "content": "x"}]})
    file.write_text(f"{good}\n{row}\n", encoding="utf-8")
    with pytest.raises(LoadError, match="line 2"):
        read_prompts(file)
