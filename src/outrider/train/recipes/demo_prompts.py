"""Prompts of the kinds of work a small chat model is given, made from patterns, word lists and its own texts.

`python -m outrider.train.recipes.demo_prompts TEXTS OUT.jsonl --count N` reads a directory of `outrider train
data` and writes N prompts by the patterns of demo_prompts.toml. The same seed gives the same prompts. No
public set of prompts is copied from, so any of those may be measured on.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outrider.llm import load
from outrider.train.generate import open_data

PATTERNS = Path(__file__).with_suffix(".toml")
PARAGRAPH = range(200, 900)
"""Characters of a paragraph that can be asked about."""
BLANK = re.compile(r"\{(?:(\d+)-(\d+)|([a-z]+)(\d*))\}")


class Prompts:
    """Makes prompts; `passages` are paragraphs that the model itself wrote."""

    def __init__(self, seed: int, passages: Sequence[str]) -> None:
        given: dict[str, Any] = tomllib.loads(PATTERNS.read_text(encoding="utf-8"))
        self._words: dict[str, Sequence[str]] = {**given["words"], "passage": passages}
        self._kinds = list(given["kinds"].values())
        self._dice = random.Random(seed)

    def make(self) -> tuple[str, ...]:
        """Return the user's turns of one prompt."""
        (kind,) = self._dice.choices(self._kinds, [kind["share"] for kind in self._kinds])
        return tuple(self._filled(self._dice.choice(kind["patterns"]), {}).split(" || "))

    def _filled(self, pattern: str, named: dict[str, str]) -> str:
        """Fill the blanks of a pattern; what a word stands for may have blanks of its own."""

        def fill(blank: re.Match[str]) -> str:
            low, high, word, number = blank.groups()
            if low:
                return str(self._dice.randint(int(low), int(high)))
            if word + number in named:
                return named[word + number]
            taken = [said for key, said in named.items() if key.startswith(word)]
            said = self._dice.choice([one for one in self._words[word] if one not in taken])
            if word != "passage":
                said = self._filled(said, named)
            if number:
                named[word + number] = said
            return said

        return BLANK.sub(fill, pattern)


def passages(directory: Path, target: str, first: int | None) -> list[str]:
    """Return the paragraphs of a store's answers, of the first so many texts."""
    model = load(target).model
    found = []
    for text in open_data(directory, model)[:first]:
        for start, end in text.spans:
            said = model.tokenizer.decode(text.tokens[start:end])
            found += [part for part in said.split("\n\n") if len(part) in PARAGRAPH]
    return found


def main() -> None:
    """Write the prompts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--first", type=int, help="texts to take paragraphs from (default: all)")
    parser.add_argument("--target", default="demo")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    prompts = Prompts(given.seed, passages(given.texts, given.target, given.first))
    made = dict.fromkeys(prompts.make() for _ in range(given.count))
    given.out.write_text("".join(json.dumps({"turns": turns}) + "\n" for turns in made), encoding="utf-8")


if __name__ == "__main__":
    main()
