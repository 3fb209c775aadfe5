"""Sampling options on the command line: what is given is what is run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.cli.main import main
from outrider.sampling.params import SamplingParams

Captured = pytest.CaptureFixture[str]
BASE = ["--prompt", "abcabcabc", "--max-tokens", "24", "--json"]


def document(words: list[str], capsys: Captured) -> dict[str, Any]:
    assert main(["generate", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--typical-p", "0.3"], {"typical_p": 0.3}),
        (["--repetition-penalty", "0.05"], {"repetition_penalty": 0.05}),
        (["--presence-penalty", "1.5"], {"presence_penalty": 1.5}),
        (["--frequency-penalty", "-0.5"], {"frequency_penalty": -0.5}),
        (["--no-repeat-ngram", "1"], {"no_repeat_ngram_size": 1}),
        (["--logit-bias", "70=40", "--logit-bias", "71=39.5"], {"logit_bias": {70: 40, 71: 39.5}}),
        (["--allow-token", "70", "--allow-token", "71"], {"allowed_tokens": (70, 71)}),
        (["--ban-token", "BANNED"], {"banned_tokens": "BANNED"}),
        (["--seed", "4"], {"seed": 4}),
    ],
)
@pytest.mark.parametrize("drafter", ["none", "suffix"])
def test_an_option_does_what_it_does_in_python(
    words: list[str], options: dict[str, Any], drafter: str, tiny: str, capsys: Captured
) -> None:
    sampled = [tiny, *BASE, "--temperature", "1.0", "--drafter", drafter]
    free = document([*sampled, "--seed", "3"], capsys)["token_ids"]
    if "BANNED" in words:
        words, options = [words[0], str(free[2])], {"banned_tokens": (free[2],)}
    found = document([*sampled, *(() if "--seed" in words else ("--seed", "3")), *words], capsys)["token_ids"]
    llm = outrider.load(tiny, drafter=drafter)
    params = SamplingParams(**{"temperature": 1.0, "seed": 3, "max_tokens": 24, **options})
    assert found == list(llm.generate("abcabcabc", params).token_ids)
    assert found != free


def test_a_banned_word_is_not_written(tiny: str, capsys: Captured) -> None:
    words = [tiny, *BASE, "--temperature", "1.0", "--seed", "3"]
    text = document(words, capsys)["text"]
    letter = next(letter for letter in text if letter.isascii() and letter.isprintable())
    assert letter not in document([*words, "--ban-word", letter], capsys)["text"]


def test_min_tokens_holds_back_the_end(tiny: str, capsys: Captured) -> None:
    words = [tiny, *BASE]
    stop = str(document(words, capsys)["token_ids"][1])
    assert document([*words, "--stop-token-id", stop], capsys)["completion_tokens"] <= 2
    found = document([*words, "--stop-token-id", stop, "--min-tokens", "6"], capsys)
    assert found["completion_tokens"] > 6
    assert int(stop) not in found["token_ids"][:6]


def test_logprobs_stand_in_the_document(tiny: str, capsys: Captured) -> None:
    words = [tiny, *BASE, "--temperature", "1.0", "--seed", "3", "--top-k", "5"]
    bare = document(words, capsys)
    assert bare["logprobs"] is None
    assert bare["prompt_logprobs"] is None
    found = document(
        [*words, "--logprobs", "7", "--logprobs-of", "processed", "--prompt-logprobs", "0"], capsys
    )
    assert [entry["token"] for entry in found["logprobs"]] == found["token_ids"] == bare["token_ids"]
    assert all(len(entry["top"]) == 5 for entry in found["logprobs"])
    assert all(entry["logprob"] in [value for _, value in entry["top"]] for entry in found["logprobs"])
    assert found["prompt_logprobs"][0] is None
    assert len(found["prompt_logprobs"]) == found["prompt_tokens"]


def test_several_samples_are_printed_and_stand_in_the_document(tiny: str, capsys: Captured) -> None:
    words = [tiny, *BASE, "--temperature", "1.0", "--seed", "3"]
    single = document(words, capsys)
    assert single["samples"] is None
    several = document([*words, "--n", "3"], capsys)
    assert several["token_ids"] == single["token_ids"] == several["samples"][0]["token_ids"]
    assert [sample["sample"] for sample in several["samples"]] == [0, 1, 2]
    assert main(["generate", *(word for word in words if word != "--json"), "--n", "3", "--show"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("sample ") == 3
    assert captured.err.count("24 tokens (length)") == 3
    best = document([*words, "--n", "2", "--best-of", "3"], capsys)
    assert best["mean_logprob"] == max(sample["mean_logprob"] for sample in best["samples"])
    assert len(best["samples"]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--logit-bias", "7"], "--logit-bias '7': write ID=X"),
        (["--logit-bias", "a=1"], "--logit-bias 'a=1': write ID=X"),
        (["--logit-bias", "7=inf"], "use banned_tokens"),
        (["--logit-bias", "7=1", "--logit-bias", "7=2"], "token 7 has a bias already"),
        (["--logprobs-of", "raw"], "--logprobs-of says of what logprobs are, and none are asked for"),
        (["--ban-token", "999999"], "banned_tokens names token 999999"),
        (["--logprobs", "3"], "--logprobs goes into the document; add --json"),
        (["--prompt-logprobs", "3"], "--prompt-logprobs goes into the document; add --json"),
        (["--n", "3", "--best-of", "2"], "best_of=2 is not allowed"),
        (["--min-tokens", "200"], "min_tokens=200 is more than max_tokens=128"),
        (["--allow-token", "5", "--ban-token", "5"], "token 5 stands in both"),
        (["--regex", "(a"], "regex does not compile: unclosed group"),
        (["--regex", "a", "--choice", "b"], "regex and choice cannot be given together"),
        (["--grammar", "no/such/file"], "--grammar: cannot read 'no/such/file' as UTF-8 text"),
        (["--json-schema", "no/such/file"], "--json-schema: cannot read 'no/such/file'"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    words: list[str], message: str, tiny: str, capsys: Captured
) -> None:
    assert main(["generate", tiny, "--prompt", "abc", *words]) == 2
    assert message in capsys.readouterr().err


def test_the_output_is_what_a_grammar_asks_for(tiny: str, tmp_path: Path, capsys: Captured) -> None:
    schema = tmp_path / "schema.json"
    kinds = ["alpha", "beta"]
    properties = {
        "kind": {"enum": kinds},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "note": {"type": "string", "pattern": "^[a-z]{0,6}$"},
    }
    asked = {"type": "object", "properties": properties, "required": list(properties)}
    schema.write_text(json.dumps({**asked, "additionalProperties": False}), encoding="utf-8")
    grammar = tmp_path / "grammar.gbnf"
    grammar.write_text('root ::= "- " [a-c]+ "\\n- " [a-c]+ "."', encoding="utf-8")
    words = [tiny, *BASE[:2], "--max-tokens", "400", "--json", "--temperature", "0.7", "--seed", "3"]
    for extra, pattern in (
        (["--json-schema", str(schema)], ""),
        (["--regex", "(abc|bca){2,4}[.]"], "(abc|bca){2,4}[.]"),
        (["--grammar", str(grammar)], "- [a-c]+\n- [a-c]+[.]"),
        (["--choice", "one", "--choice", "two hundred"], "one|two hundred"),
    ):
        found = [document([*words, "--drafter", drafter, *extra], capsys) for drafter in ("none", "suffix")]
        assert found[0]["token_ids"] == found[1]["token_ids"]
        assert found[1]["finish_reason"] == "stop"
        assert found[1]["speculation"]["passes"] < found[0]["speculation"]["passes"]
        if pattern:
            assert re.fullmatch(pattern, found[1]["text"])
        else:
            value = json.loads(found[1]["text"])
            assert list(value) == ["kind", "count", "note"]
            assert value["kind"] in kinds
            assert value["count"] in range(100)
            assert re.fullmatch("[a-z]{0,6}", value["note"])
    begun = document([*words, "--json-object"], capsys)["text"]
    assert begun.startswith("{")
