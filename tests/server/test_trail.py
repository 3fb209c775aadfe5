"""A stream tells, where it is asked, where its tokens came from and what its passes drafted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from served import NAME, Served, serving, tiny_llm

BODY: dict[str, Any] = {"prompt": "abcabcabcabc", "max_tokens": 40, "temperature": 0}
WANTED = {"trail": True, "trees": True}


@pytest.fixture(scope="module")
def merged() -> Iterator[Served]:
    """Two drafters in one tree."""
    with serving(tiny_llm("merged:suffix+recycle")) as made:
        yield made


def told(events: list[dict[str, Any]], name: str, index: int = 0) -> list[Any]:
    choices = [choice for event in events for choice in event["choices"] if choice["index"] == index]
    return [entry for choice in choices for entry in choice.get("outrider", {}).get(name, ())]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(choice["text"] for event in events for choice in event["choices"])


@pytest.mark.parametrize("options", [{}, {"temperature": 0.9, "seed": 5}, {"stop": ["\x00nothing", "zq"]}])
def test_tokens_are_those_of_the_answer_with_their_origins_and_texts(
    merged: Served, options: dict[str, Any]
) -> None:
    body = {**BODY, **options}
    events = merged.stream(**body, outrider=WANTED)
    tokens = told(events, "trail")
    settings = {name: value for name, value in body.items() if name != "prompt"}
    result = merged.llm.generate(body["prompt"], **settings)
    assert [token["id"] for token in tokens] == list(result.token_ids)
    assert [token["origin"] for token in tokens] == list(result.origins)
    assert "".join(token["text"] for token in tokens) == text_of(events) == result.text
    assert {token["origin"] for token in tokens} >= {"drafted", "corrected"}, "the case is no trivial one"


def test_probabilities_are_the_models_own(served: Served) -> None:
    tokens = told(served.stream(**BODY, outrider=WANTED), "trail")
    result = served.llm.generate(BODY["prompt"], max_tokens=40, logprobs=0)
    assert result.logprobs is not None
    expected = [math.exp(entry.logprob) for entry in result.logprobs]
    assert [token["probability"] for token in tokens] == pytest.approx(expected, abs=2e-6)


def test_every_token_is_found_in_the_tree_of_its_pass(merged: Served) -> None:
    events = merged.stream(**BODY, outrider={**WANTED, "speculation": True})
    tokens, passes = told(events, "trail"), told(events, "trees")
    record = events[-1]["choices"][0]["outrider"]
    assert [each["pass"] for each in passes] == list(range(record["passes"]))
    assert sum(len(each["nodes"]) for each in passes) == record["drafted"]
    assert sum(node["kept"] for each in passes for node in each["nodes"]) == record["accepted"] > 0
    for each in passes:
        mine = [token for token in tokens if token["pass"] == each["pass"]]
        path, node = [], -1
        kept = {n: entry for n, entry in enumerate(each["nodes"]) if entry["kept"]}
        while after := [n for n, entry in kept.items() if entry["parent"] == node]:
            assert len(after) == 1
            node = after[0]
            path.append(each["nodes"][node])
        assert len(path) == len(kept), "what was kept is one path"
        assert [entry["id"] for entry in path] == [t["id"] for t in mine if t["origin"] == "drafted"]
        for entry, token in zip(path, mine, strict=False):
            assert entry["probability"] == token["probability"]
            assert entry["draft_probability"] == token["draft_probability"]
            assert entry["drafter"] == token["drafter"]
        if each["added"] is not None:
            assert each["added"]["id"] == mine[-1]["id"]
        assert [token["depth"] for token in mine] == list(range(1, len(mine) + 1))


def test_a_node_names_those_who_guessed_it(merged: Served) -> None:
    passes = told(merged.stream(**BODY, outrider=WANTED), "trees")
    names = {node["drafter"] for each in passes for node in each["nodes"]}
    assert names <= {"suffix", "recycle", "suffix+recycle"}
    assert len(names) > 1


def test_auto_names_whom_it_chose() -> None:
    with serving(tiny_llm("auto:suffix+recycle")) as served:
        passes = told(served.stream(**BODY, outrider=WANTED), "trees")
    names = {node["drafter"] for each in passes for node in each["nodes"]}
    assert names
    assert names <= {"suffix", "recycle"}


def test_what_is_not_asked_for_is_not_told_and_changes_nothing(served: Served) -> None:
    bare = served.stream(**BODY)
    assert all("outrider" not in choice for event in bare for choice in event["choices"])
    only = served.stream(**BODY, outrider={"trail": True})
    assert told(only, "trail")
    assert not told(only, "trees")
    trees = served.stream(**BODY, outrider={"trees": True})
    assert told(trees, "trees")
    assert not told(trees, "trail")
    assert text_of(bare) == text_of(only) == text_of(trees)


def test_samples_are_told_of_each_by_itself(served: Served) -> None:
    body = {**BODY, "temperature": 1.2, "seed": 3, "n": 3}
    events = served.stream(**body, outrider=WANTED)
    result = served.llm.generate(body["prompt"], temperature=1.2, seed=3, n=3, max_tokens=40)
    for index, sample in enumerate(result.samples):
        assert [token["id"] for token in told(events, "trail", index)] == list(sample.token_ids)


def test_a_stop_string_cuts_tokens_and_trees_alike(served: Served) -> None:
    text = text_of(served.stream(**BODY))
    events = served.stream(**BODY, stop=[text[20:23]], outrider=WANTED)
    tokens, passes = told(events, "trail"), told(events, "trees")
    emitted = sum(node["kept"] for each in passes for node in each["nodes"])
    emitted += sum(each["added"] is not None for each in passes)
    assert len(tokens) == emitted
    assert text_of(events) == text[: text.index(text[20:23])]


@pytest.mark.parametrize("name", ["trail", "trees"])
def test_without_a_stream_they_are_refused(served: Served, name: str) -> None:
    answer = served.post("/v1/completions", {"model": NAME, **BODY, "outrider": {name: True}})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == f"outrider.{name}"


def test_a_chat_tells_of_its_tokens_too(served: Served) -> None:
    events = served.stream(
        "/v1/chat/completions",
        messages=[{"role": "user", "content": "abcabc"}],
        max_completion_tokens=30,
        temperature=0,
        outrider=WANTED,
    )
    said = "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])
    assert "".join(token["text"] for token in told(events, "trail")) == said
