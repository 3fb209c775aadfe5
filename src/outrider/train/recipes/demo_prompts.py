"""Prompts of the kinds of work a small chat model is given, made from word lists and from its own texts.

`python -m outrider.train.recipes.demo_prompts OWN_TEXTS OUT.jsonl --count N` reads a directory of `outrider
train data` and writes N prompts: summaries and questions about passages, extraction, translation from German,
sums in words, short questions, things to write, roles to play and code to write. The same seed gives the same
prompts. No public set of prompts is copied from, so any of those may be measured on.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from outrider.llm import load
from outrider.train.generate import open_data

NAMES = (
    "Anna Ben Clara David Emma Felix Grace Hugo Ivy Jonas Kira Liam Mona Noah Olive Paul Rosa Sam Tara Umar Vera "
    "Will Yara Zoe Maria Peter Lucy Omar Nina Carlos Mei Raj Fatima Igor Lena Tom Sara Mike Julia Kofi"
).split()
THINGS = (
    "apples pencils books stickers marbles cookies tickets shirts cups plants bottles cards candles loaves eggs "
    "coins chairs lamps boxes stamps toys bags hats shoes pies roses oranges notebooks keys bikes"
).split()
PLACES = (
    "Lisbon Oslo Kyoto Nairobi Lima Boston Prague Cairo Sydney Dublin Hanoi Quito Warsaw Athens Delhi Seattle "
    "Geneva Havana Tunis Riga Accra Denver Manila Bern Tallinn Montreal Vienna Seoul Porto Zagreb"
).split()
TOPICS = (
    "the water cycle;volcanoes;black holes;the French Revolution;inflation;supply and demand;photosynthesis;gravity;"
    "the immune system;plate tectonics;climate change;electric cars;vaccines;the Roman Empire;jazz;impressionism;"
    "democracy;the stock market;neural networks;databases;the internet;encryption;recycling;solar power;nuclear energy;"
    "the human heart;sleep;vitamins;yoga;time management;public speaking;job interviews;budgeting;the printing press;"
    "the Silk Road;the Cold War;evolution;DNA;antibiotics;the periodic table;acids and bases;magnetism;sound waves;"
    "light and colour;comets;the Moon;coral reefs;rain forests;deserts;whales;bees;dinosaurs;bread baking;coffee;chess;"
    "football;marathons;mountain climbing;photography;cinema;opera;poetry;the novel;philosophy;ethics;logic;statistics;"
    "probability;geometry;calculus;prime numbers;operating systems;compilers;web design;robots;space travel;bridges;"
    "trains;ships;cities;housing;trade;taxes;labour unions;schools;libraries;museums;languages;translation;memory;habits;"
    "friendship;leadership;teamwork;negotiation;marketing;small businesses;farming;gardening;forests;rivers;weather"
).split(";")
TASKS_OF_CODE = (
    "reverses a string;checks whether a number is prime;finds the longest word in a sentence;sorts a list of numbers;"
    "merges two sorted lists;counts the vowels in a text;removes duplicates from a list;computes the factorial of a number;"
    "returns the n-th Fibonacci number;checks whether a word is a palindrome;finds the maximum of a matrix;"
    "reads a file and counts its lines;parses a date;computes the average of a list;rotates an array;finds two numbers with "
    "a given sum;implements a stack;implements a queue;traverses a binary tree;performs binary search;transposes a matrix;"
    "validates an email address;converts Celsius to Fahrenheit;generates a random password;groups words by length;"
    "finds the shortest path in a grid;flattens a nested list;counts words in a text;checks balanced brackets;"
    "computes the greatest common divisor"
).split(";")
LANGUAGES = ("Python", "Python", "Python", "JavaScript", "C++", "Java", "Go", "SQL")
PIECES = (
    "a short story;a poem;a blog post;an outline of an essay;an email to a colleague;a product description;a speech;"
    "a dialogue;a letter;a review;a list of ideas;a plan for a week;a news report;an advertisement;a recipe;a song;a quiz"
).split(";")
ROLES = (
    "a teacher;a doctor;a travel guide;a lawyer;a chef;a scientist;a historian;a coach;a poet;a detective;a farmer;"
    "an engineer;a librarian;a pirate;a robot;a king;a journalist;an economist;a gardener;a mathematician"
).split(";")
WHO = (
    "wrote;painted;invented;discovered;founded;first described;first played;designed;directed;sang about"
).split(";")
DER = (
    "Bürgermeister;Minister;Verein;Trainer;Arzt;Lehrer;Bauer;Künstler;Richter;Fahrer;Sprecher;Nachbar;Direktor;Schüler;"
    "Präsident;Händler;Wirt;Ingenieur;Spieler;Zeuge;Forscher;Kunde"
).split(";")
DIE = (
    "Stadt;Regierung;Polizei;Firma;Gemeinde;Schule;Mannschaft;Zeitung;Familie;Universität;Bank;Feuerwehr;Partei;Kirche;"
    "Klinik;Verwaltung;Gruppe;Kommission"
).split(";")
OBJECTS = (
    "das neue Haus;den alten Vertrag;die Ergebnisse;eine bessere Lösung;den Bericht;die Pläne;das Projekt;einen Preis;die "
    "Brücke;den Wald;das Fest;die Strecke;das Angebot;den Vorschlag;die Kosten;das Museum;eine Studie;den Markt"
).split(";")
VERBS = (
    "vorgestellt;geprüft;abgelehnt;gesehen;bezahlt;verkauft;gefunden;geplant;verloren;unterstützt;gefordert;beschrieben;"
    "kritisiert;eröffnet;erwartet;gelobt"
).split(";")
WHEN = (
    "am Montag;im Sommer;vor zwei Jahren;gestern Abend;im Jahr {year};nach dem Spiel;in den letzten {n} Monaten;seit "
    "langem;am {n}. Mai;wie erwartet;trotz der Krise;zum ersten Mal;ohne Grund;in {place};mit großer Freude"
).split(";")
TAILS = (
    ";, sagte {name};, weil es zu teuer war;, obwohl viele dagegen waren;, wie {name} mitteilte;, und {n} Menschen kamen;"
    ", damit alle helfen können;, um {n} Millionen Euro zu sparen;, hieß es in {place}"
).split(";")


class Prompts:
    """Makes prompts; `passages` are texts that the model itself wrote."""

    def __init__(self, seed: int, passages: Sequence[str]) -> None:
        self._dice, self._passages = random.Random(seed), passages
        self._kinds: list[tuple[Callable[[], str], int]] = [
            (self.summary, 5),
            (self.about_passage, 5),
            (self.extraction, 2),
            (self.translation, 5),
            (self.sums, 6),
            (self.short_question, 5),
            (self.explanation, 3),
            (self.piece, 2),
            (self.role, 1),
            (self.code, 3),
        ]

    def make(self) -> str:
        """Return one prompt."""
        kinds, shares = zip(*self._kinds, strict=True)
        (kind,) = self._dice.choices(kinds, shares)
        made: str = kind()
        return made

    def summary(self) -> str:
        """A passage to summarise."""
        return self._one("Summarize: ", "Summarize the text below.\n", "Give a summary: ") + self._passage(3)

    def about_passage(self) -> str:
        """A question about passages."""
        question = self._one(
            "what is said about {topic}?",
            "what is the main point?",
            "who is {name}?",
            "how does {topic} work?",
            "when was it made?",
            "why does it matter?",
            "where is {place}?",
        )
        asked = self._filled(question)
        text = self._passage(3)
        return self._one(f"{text} {asked}", f"Answer the question from the text.\n{text}\nQuestion: {asked}")

    def extraction(self) -> str:
        """Something to take out of a passage."""
        wanted = self._one(
            "the names of people and places as JSON",
            "the key facts as a list",
            "all numbers and what they mean",
            "the main words, separated by commas",
        )
        return f"Extract {wanted} from the following text.\n{self._passage(1)}"

    def translation(self) -> str:
        """A German sentence."""
        subject = self._one(f"Der {self._one(*DER)}", f"Die {self._one(*DIE)}", self._one(*NAMES))
        when, what, done = self._one(*WHEN), self._one(*OBJECTS), self._one(*VERBS)
        first = f"{subject} hat {when} {what} {done}"
        other = f"{when[0].upper()}{when[1:]} hat {subject[0].lower() if subject[1] in 'ei' else subject[0]}{subject[1:]} {what} {done}"
        return "Translate German to English: " + self._filled(self._one(first, other) + self._one(*TAILS)) + " ."

    def sums(self) -> str:
        """A sum in words."""
        text = self._one(
            "{name} has {n} {thing}. {other} gives {name} {m} more, and then {name} sells {k} of them. How many {thing} are left?",
            "{name} buys {n} {thing} for ${m} each and {k} {things} for ${n2} each. How much does {name} spend in total?",
            "{name} earns ${m} an hour and works {k} hours a day. How much does {name} earn in {n} days?",
            "A box holds {n} {thing}. {name} fills {k} boxes and has {m} {thing} over. How many {thing} were there at first?",
            "{name} is {n} years old. {other} is {k} times as old as {name}. How old will {other} be in {m} years?",
            "There are {n} {thing} in a shop. On Monday a third of them is sold and on Tuesday {k} more. How many are left?",
            "A train goes {n} miles an hour for {k} hours and then {m} miles an hour for {k2} hours. How far does it go?",
            "{name} read {n} pages on Monday, twice as many on Tuesday and {m} fewer than on Tuesday on Wednesday. How many pages in all?",
            "The {thing} cost ${n}. They are reduced by {k}0%. What does {name} pay for {m} of them?",
            "{name} and {other} share {n} {thing}. {name} gets {m} more than {other}. How many does each get?",
        )
        return self._filled(text)

    def short_question(self) -> str:
        """A question that a line answers."""
        text = self._one(
            f"who {self._one(*WHO)} {{topic}}?",
            "when did {topic} begin?",
            "where is {place}?",
            "what is the capital of the country of {place}?",
            "what is {topic}?",
            "how many people live in {place}?",
            "who is the mayor of {place}?",
            "what does {topic} mean?",
            "why is {topic} important?",
            "who plays {name} in {topic}?",
            "when was the university of {place} founded?",
            "how long does it take to learn about {topic}?",
        )
        asked = self._filled(text)
        return asked[0].upper() + asked[1:]

    def explanation(self) -> str:
        """Something to explain."""
        return self._filled(
            self._one(
                "Explain {topic} to a child.",
                "What are the main causes and effects of {topic}?",
                "Describe the history of {topic} and its impact on {topic2}.",
                "Compare {topic} and {topic2}.",
                "List five facts about {topic}.",
                "What are the advantages and disadvantages of {topic}?",
                "Describe the main ideas of {topic} step by step.",
            )
        )

    def piece(self) -> str:
        """Something to write."""
        return self._filled(f"Write {self._one(*PIECES)} about {{topic}} and {{name}} from {{place}}.")

    def role(self) -> str:
        """A role to play."""
        return self._filled(f"Pretend to be {self._one(*ROLES)}. What would you say about {{topic}}?")

    def code(self) -> str:
        """A function to write."""
        return f"Write a function in {self._one(*LANGUAGES)} that {self._one(*TASKS_OF_CODE)}."

    def _passage(self, most: int) -> str:
        return " ".join(self._dice.sample(list(self._passages), self._dice.randint(1, most)))

    def _one(self, *choices: str) -> str:
        return self._dice.choice(choices)

    def _filled(self, text: str) -> str:
        name, other = self._dice.sample(NAMES, 2)
        thing, things = self._dice.sample(THINGS, 2)
        topic, topic2 = self._dice.sample(TOPICS, 2)
        whole = self._dice.randint
        return text.format(
            name=name,
            other=other,
            thing=thing,
            things=things,
            topic=topic,
            topic2=topic2,
            place=self._one(*PLACES),
            year=whole(1850, 2020),
            n=whole(2, 90),
            n2=whole(2, 20),
            m=whole(2, 30),
            k=whole(2, 9),
            k2=whole(2, 9),
        )


def passages(directory: Path, target: str) -> list[str]:
    """Return the paragraphs of a store's answers, of 200 to 900 characters."""
    model = load(target).model
    found = []
    for text in open_data(directory, model):
        for start, end in text.spans:
            said = model.tokenizer.decode(text.tokens[start:end])
            found += [part for part in said.split("\n\n") if 200 <= len(part) <= 900]
    return found


def main() -> None:
    """Write the prompts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("own_texts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--target", default="demo")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    prompts = Prompts(given.seed, passages(given.own_texts, given.target))
    made = dict.fromkeys(prompts.make() for _ in range(given.count))
    given.out.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in made), encoding="utf-8")


if __name__ == "__main__":
    main()
