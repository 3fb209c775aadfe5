"""Tools go through the chat template, and calls come out of what the model writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import CapabilityError
from outrider.server.tools import CallReader
from served import NAME, TOOL_TEMPLATE, byte_tokenizer, serving, tiny_llm

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "\u00e9"}}\n</tool_call>'
USER = {"role": "user", "content": "abc"}


def read(pieces: list[str]) -> tuple[str, list[tuple[str, str]]]:
    reader = CallReader()
    parts = [reader.feed(piece) for piece in pieces] + [reader.feed("", last=True)]
    calls = [call for _, found in parts for call in found]
    return "".join(text for text, _ in parts), [(call.name, call.arguments) for call in calls]


@given(st.data())
def test_calls_are_the_same_however_the_text_is_cut(data: st.DataObject) -> None:
    text = f"say <tool {CALL}{CALL} then <tool_call>no</tool_call> <tool_call>{{"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    said, calls = read(pieces)
    assert said == "say <tool  then <tool_call>no</tool_call> <tool_call>{"
    assert calls == [("look", '{"at": "\u00e9"}')] * 2


@pytest.mark.parametrize(
    "inner", ["", "[]", '{"name": 1}', '{"name": "f", "arguments": "x"}', "[" * 100_000, '{"name": "f"']
)
def test_what_is_no_call_remains_text(inner: str) -> None:
    text = f"<tool_call>{inner}</tool_call>"
    assert read([text]) == (text, [])


def test_tools_reach_the_template_as_text_and_a_template_without_them_refuses() -> None:
    tokenizer = byte_tokenizer(TOOL_TEMPLATE)
    tool = {"type": "function", "function": {"name": "<|end|>"}}
    tokens = tokenizer.chat([USER], [tool])
    assert tokenizer.decode(tokens) == json.dumps(tool) + "\nuser: abc\nassistant: "
    assert not tokenizer.eos_ids & set(tokens)
    with pytest.raises(CapabilityError, match="knows no tools"):
        byte_tokenizer().chat([USER], [tool])


def test_calls_are_parsed_whole_and_streamed_and_go_back_into_the_next_prompt() -> None:
    llm = tiny_llm(template=TOOL_TEMPLATE)
    lark = "start: " + json.dumps("so " + CALL)
    expected = {"name": "look", "arguments": '{"at": "\u00e9"}'}
    body = {"messages": [USER], "tools": [TOOL], "max_tokens": 100, "temperature": 0}
    with serving(llm) as served:
        # A grammar cannot be asked for beside tools; a bias can write the call as well.
        tokens = [*llm.encode("so " + CALL)]
        written: dict[str, Any] = {}
        original = llm.model.target.forward

        def dictated(batch: Any, caches: Any) -> Any:
            logits = original(batch, caches).clone()
            for row, wanted in enumerate(batch.wanted):
                at = batch.positions[wanted] + 1 - written["start"]
                logits[row] = -100.0
                logits[row, tokens[at] if 0 <= at < len(tokens) else 256] = 100.0
            return logits

        llm.model.target.forward = dictated  # type: ignore[method-assign]
        written["start"] = len(llm.model.tokenizer.chat([USER], [TOOL]))
        answer = served.post("/v1/chat/completions", {"model": NAME, **body}).json()
        choice = answer["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["content"] == "so"
        assert [call["function"] for call in choice["message"]["tool_calls"]] == [expected]
        got = [c for event in served.stream("/v1/chat/completions", **body) for c in event["choices"]]
        calls = [call for c in got for call in c["delta"].get("tool_calls", ())]
        assert [(call["index"], call["type"], call["function"]) for call in calls] == [
            (0, "function", expected)
        ]
        assert "".join(c["delta"].get("content", "") for c in got) == "so "
        assert got[-1]["finish_reason"] == "tool_calls"

        refused = served.post("/v1/chat/completions", {"model": NAME, **body, "outrider": {"grammar": lark}})
        assert refused.json()["error"]["param"] == "tools"
        none = {"model": NAME, **body, "tool_choice": "none"}
        written["start"] = len(llm.encode([USER]))
        choice = served.post("/v1/chat/completions", none).json()["choices"][0]
        assert choice["message"]["content"] == "so " + CALL

        past = {"role": "assistant", "tool_calls": [{"id": "1", "function": expected}]}
        reply = {"role": "tool", "tool_call_id": "1", "content": "seen"}
        found = served.post("/tokenize", {"messages": [USER, past, reply]}).json()["tokens"]
        assert (
            '<tool_call>{"name": "look", "arguments": {"at": "\u00e9"}}</tool_call>'
            in llm.model.tokenizer.decode(found)
        )


def test_a_template_whose_calls_nobody_reads_here_refuses_tools() -> None:
    template = TOOL_TEMPLATE.replace("tool_call>", "call>")
    with serving(tiny_llm(template=template)) as served:
        answer = served.post("/v1/chat/completions", {"model": NAME, "messages": [USER], "tools": [TOOL]})
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "unsupported"
