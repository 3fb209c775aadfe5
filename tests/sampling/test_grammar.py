"""A grammar as a constraint: its masks are the language's, whatever was drafted and asked before."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from outrider.engine.grammar import Grammars
from outrider.errors import OptionError
from outrider.models.toy import ToyTokenizer
from outrider.models.vocab import SpecialTokens, TextTokenizer
from outrider.sampling.grammar import GrammarConstraint

LETTERS = 8
TEXTS = [json.dumps({"name": f"Ann {i}", "age": i, "tags": ["red", "blue"]}) for i in range(40)]
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
)


def words_of_bytes() -> TextTokenizer:
    """Train a byte-level BPE of 400 tokens, so that most tokens hold several characters."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    )
    return TextTokenizer(backend, SpecialTokens())


@pytest.fixture(scope="module")
def letters() -> Grammars:
    return Grammars(ToyTokenizer(LETTERS), LETTERS)


@pytest.fixture(scope="module")
def words() -> tuple[Grammars, TextTokenizer]:
    tokenizer = words_of_bytes()
    return Grammars(tokenizer, len(tokenizer.vocabulary()) + 5), tokenizer


def allowed(constraint: GrammarConstraint, path: Sequence[int], size: int = LETTERS) -> set[int]:
    mask = constraint.mask(path, size)
    assert mask is not None
    return set(mask.nonzero().flatten().tolist())


@pytest.mark.parametrize("seed", range(20))
def test_a_choices_mask_is_what_its_strings_go_on_with(letters: Grammars, seed: int) -> None:
    draw = random.Random(seed)
    end = LETTERS - 1
    choice = {"".join(draw.choices("abcdefg", k=draw.randint(1, 4))) for _ in range(draw.randint(1, 6))}
    constraint = letters.constraint("choice", json.dumps(sorted(choice)), [end])
    prefixes = {word[:length] for word in choice for length in range(len(word) + 1)}
    for prefix in draw.sample(sorted(prefixes), len(prefixes)):  # in any order: nothing leaves a trace
        path = [ord(letter) - 97 for letter in prefix]
        following = {word[len(prefix)] for word in choice if word.startswith(prefix) and word != prefix}
        expected = {ord(letter) - 97 for letter in following} | ({end} if prefix in choice else set())
        assert allowed(constraint, path) == expected
        assert constraint.accepts(path) == len(path)
        assert constraint.is_over(path) == (expected == {end})
        wrong = draw.choice(sorted(set(range(LETTERS)) - expected))
        assert constraint.accepts([*path, wrong, 0]) == len(path)
        if prefix in choice:
            assert constraint.accepts([*path, end, 0]) == len(path) + 1
            assert constraint.mask([*path, end], LETTERS) is None


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("json_schema", SCHEMA),
        ("json_object", '{"type": "object"}'),
        ("regex", "(Ann [0-9]{1,2}(, |; ))+(red|blue)"),
        ("grammar", 'start: "{" pair "}"\npair: "\\"" /[a-z]+/ "\\": " /[0-9]+/ ("," pair)?'),
    ],
)
def test_a_mask_depends_on_the_text_alone(
    option: str, text: str, words: tuple[Grammars, TextTokenizer]
) -> None:
    """Not on what was drafted, asked or rolled back before, nor on how much was committed at once."""
    grammars, tokenizer = words
    size = len(tokenizer.vocabulary()) + 5
    draw = random.Random(option)
    wandering, committed, path = grammars.constraint(option, text, []), 0, list[int]()
    for _ in range(120):
        fresh = grammars.constraint(option, text, [])
        cut = draw.randint(0, len(path))
        fresh.commit(path[:cut])
        expected = allowed(fresh, path[cut:], size)
        assert allowed(wandering, path[committed:], size) == expected
        assert max(expected, default=0) < len(tokenizer.vocabulary())
        wandering.accepts([draw.randrange(size) for _ in range(4)])
        for guess in draw.sample(range(size), 2):
            wandering.mask([*path[committed:], guess], size)
        wandering.forced(4)
        if not expected or draw.random() < 0.3:
            del path[draw.randint(committed, len(path)) :]
            continue
        path.append(draw.choice(sorted(expected)))
        if draw.random() < 0.2:
            wandering.commit(path[committed:])
            committed = len(path)
    assert len(path) > 5


def test_a_token_of_several_characters_is_allowed_where_all_of_it_fits(
    words: tuple[Grammars, TextTokenizer],
) -> None:
    grammars, tokenizer = words
    size = len(tokenizer.vocabulary()) + 5
    constraint = grammars.constraint("regex", '[{]"(name|nase)": 12*', [])
    whole = tokenizer.encode('{"name": 122')
    assert len(whole) < len('{"name": 122') - 3
    assert constraint.accepts(whole) == len(whole)
    assert constraint.accepts(tokenizer.encode('{"name": 121')) < len(tokenizer.encode('{"name": 121'))
    for count in range(len(whole)):
        assert whole[count] in allowed(constraint, whole[:count], size)


def test_forced_tokens_are_what_the_grammar_leaves_no_choice_about(letters: Grammars) -> None:
    constraint = letters.constraint("regex", "abc(d|e)fg+", [])
    assert constraint.forced(9) == [0, 1, 2]
    assert constraint.forced(2) == [0, 1]
    for count in range(3):
        assert allowed(constraint, [0, 1, 2][:count]) == {count}
    constraint.commit([0, 1, 2])
    assert constraint.forced(9) == []
    constraint.commit([3])
    assert constraint.forced(9) == [5, 6]


def test_forced_json_is_in_the_usual_layout_for_as_long_as_the_text_is(
    words: tuple[Grammars, TextTokenizer],
) -> None:
    grammars, tokenizer = words

    def forced_after(text: str) -> str:
        constraint = grammars.constraint("json_schema", SCHEMA, [])
        constraint.commit(tokenizer.encode(text))
        forced = constraint.forced(20)
        assert constraint.accepts(forced) == len(forced)
        return tokenizer.decode(forced)

    assert forced_after("") == '{"name":'
    assert forced_after('{"name": "Ann"').startswith(', "age":')
    assert " " not in forced_after('{ "name": "Ann"')
    assert " " not in forced_after('{"name" : "Ann"')


def test_white_space_in_json_comes_to_an_end(words: tuple[Grammars, TextTokenizer]) -> None:
    grammars, tokenizer = words
    constraint = grammars.constraint("json_schema", SCHEMA, [])
    assert constraint.accepts(tokenizer.encode("{" + "\n" * 50 + '"name"')) > 50
    long = tokenizer.encode("{" + "\n" * 80)
    assert constraint.accepts(long) < len(long)


def test_an_unreachable_language_has_an_empty_mask_where_it_breaks_off(letters: Grammars) -> None:
    constraint = letters.constraint("regex", "ax|b", [])
    assert allowed(constraint, [0]) == set()
    assert allowed(constraint, []) == {0, 1}
    assert allowed(constraint, [0]) == set()


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("regex", "(a", "regex does not compile: unclosed group"),
        ("regex", "(?=a)b", "regex does not compile: look-around"),
        ("regex", "x+", "regex allows no text that this model's tokens can write"),
        ("grammar", "start: more", 'grammar does not compile: .*unknown name: "more"'),
        ("grammar", "root ::= (", "grammar does not compile: Expected"),
        ("grammar", "root ::= more", "grammar does not compile: Rule 'more' not found"),
        ("choice", '["xyz"]', "choice allows no text"),
        ("json_schema", '{"enum": []}', "json_schema does not compile: Unsatisfiable schema"),
        ("json_schema", '{"type": "objekt"}', "json_schema does not compile: Invalid type"),
        ("json_schema", '{"minimum": 3, "maximum": 2, "type": "integer"}', "Unsatisfiable schema"),
    ],
)
def test_a_grammar_that_cannot_be_met_is_refused(
    option: str, text: str, words: str, letters: Grammars
) -> None:
    with pytest.raises(OptionError, match=words):
        letters.constraint(option, text, [])


def test_a_grammar_is_compiled_once_and_each_constraint_moves_alone(letters: Grammars) -> None:
    first, second = (letters.constraint("regex", "ab|cd", []) for _ in range(2))
    first.commit([0])
    assert allowed(first, []) == {1}
    assert allowed(second, []) == {0, 2}
    assert allowed(letters.constraint("regex", "ab|cd", []), []) == {0, 2}
    assert torch.equal(torch.tensor(sorted(allowed(second, [2]))), torch.tensor([3]))
