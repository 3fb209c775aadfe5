from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from outrider.bench.suites import OWN, open_suite, read_suite
from outrider.bench.suites.reader import MT_BENCH
from outrider.errors import LoadError, UnknownNameError
from outrider.registry import SUITES


def write(tmp_path: Path, *rows: object, name: str = "prompts.jsonl") -> Path:
    file = tmp_path / name
    file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return file


def test_the_own_suite_has_four_prompts_of_each_task() -> None:
    suite = OWN.read()
    counts = Counter(prompt.category for prompt in suite.prompts)
    assert counts == dict.fromkeys(("edit", "code", "summarization", "qa", "rag", "math_reasoning"), 4)
    assert len({prompt.id for prompt in suite.prompts}) == 24
    assert open_suite("own") == suite


def test_every_registered_suite_can_be_read() -> None:
    assert all(open_suite(name).prompts for name in SUITES)


def test_spec_bench_categories_of_mt_bench_are_one_task(tmp_path: Path) -> None:
    rows = [
        {"question_id": i, "category": name, "turns": ["a", "b"]} for i, name in enumerate(sorted(MT_BENCH))
    ]
    rows.append({"question_id": 99, "category": "translation", "turns": ["c"], "reference": ["d"]})
    suite = read_suite(write(tmp_path, *rows))
    assert Counter(prompt.category for prompt in suite.prompts) == {"mt": 8, "translation": 1}
    assert suite.prompts[0].turns == ("a", "b")
    assert suite.prompts[-1].id == "99"


def test_plain_prompts_come_from_json_lines_and_text(tmp_path: Path) -> None:
    suite = read_suite(write(tmp_path, {"prompt": "one"}, "", {"prompt": "two", "category": "x", "id": "b"}))
    assert [(p.id, p.category, p.turns) for p in suite.prompts] == [
        ("1", "prompts", ("one",)),
        ("b", "x", ("two",)),
    ]
    suite = read_suite(write(tmp_path, "first", "", "second", name="prompts.txt"))
    assert [p.turns[0] for p in suite.prompts] == ["first", "second"]


def test_a_separator_inside_a_json_string_does_not_end_the_line(tmp_path: Path) -> None:
    """str.splitlines breaks at U+2028, which JSON allows inside strings."""
    file = write(tmp_path, json.dumps({"prompt": "a\u2028b"}, ensure_ascii=False))
    assert read_suite(file).prompts[0].turns == ("a\u2028b",)


def test_a_limit_counts_within_each_task(tmp_path: Path) -> None:
    rows = [{"prompt": str(i), "category": "ab"[i % 2]} for i in range(6)]
    suite = read_suite(write(tmp_path, *rows))
    assert [p.turns[0] for p in suite.limited(2).prompts] == ["0", "1", "2", "3"]
    assert suite.limited(None) is suite


@pytest.mark.parametrize(
    "line",
    [
        '{"prompt": ',
        "[1]",
        '{"category": "x"}',
        '{"turns": []}',
        '{"turns": [""]}',
        '{"turns": "text"}',
        '{"prompt": 7}',
        '{"prompt": "x", "category": 3}',
        '{"prompt": "x", "category": "overall"}',
    ],
)
def test_a_malformed_line_is_an_error_with_its_number(tmp_path: Path, line: str) -> None:
    file = write(tmp_path, {"prompt": "fine"}, "", line)
    with pytest.raises(LoadError, match="line 3"):
        read_suite(file)


def test_an_empty_or_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no prompts"):
        read_suite(write(tmp_path, ""))
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LoadError, match=r"binary\.jsonl"):
        read_suite(binary)


def test_an_unknown_suite_names_the_near_ones_and_a_missing_file_itself() -> None:
    with pytest.raises(UnknownNameError, match="own"):
        open_suite("owm")
    with pytest.raises(LoadError, match=r"missing\.jsonl"):
        open_suite("missing.jsonl")
