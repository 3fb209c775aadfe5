"""The generated parts of docs/guarantees.md: `python tests/page.py` writes them anew.

What is compared comes from `matrix.py` and the registries, the faults from `faults/`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guarantees.md"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from faults import AREAS  # noqa: E402
from matrix import ALL_DRAFTERS, KEEPING_LAWS, KEEPING_TOKENS, LAW_CASES, SAMPLINGS, SMALL  # noqa: E402
from outrider.registry import LOSSY_RULES, RULES  # noqa: E402
from outrider.sampling.params import SamplingParams  # noqa: E402

TOKENS = "loop/test_options.py::test_a_rule_of_same_tokens_emits_what_the_slow_reference_emits"
LAWS = "loop/test_options.py::test_the_law_of_a_text_is_that_of_the_slow_reference_over_all_outcomes"
PROOF = "loop/accept/test_proof.py::test_every_rule_keeps_its_guarantee_exactly"
ELSEWHERE = {
    "json_schema": "cli/test_audit.py::test_every_mix_of_options_is_looked_at_and_passes",
    "json_object": "cli/test_audit.py::test_every_mix_of_options_is_looked_at_and_passes",
    "seed": "loop/test_conformance.py::test_a_request_gets_the_same_tokens_alone_and_in_any_batch",
    "n": "engine/test_samples.py::test_sample_i_is_the_same_whatever_n_is_and_whatever_is_drafted",
    "best_of": "engine/test_samples.py::"
    "test_best_of_keeps_the_samples_whose_tokens_were_most_likely_on_average",
    "logprobs": "engine/test_logprobs.py::"
    "test_they_are_those_of_the_slow_reference_and_equal_to_those_of_plain_decoding",
    "logprobs_of": "engine/test_logprobs.py::"
    "test_they_are_those_of_the_slow_reference_and_equal_to_those_of_plain_decoding",
    "prompt_logprobs": "engine/test_logprobs.py::"
    "test_those_of_the_prompt_are_the_models_own_however_the_prompt_is_cut",
    "max_tokens": "engine/test_engine.py::test_the_length_asked_for_is_exact_whatever_is_drafted",
    "stop": "engine/test_ends.py::test_a_stop_text_is_found_wherever_it_lies_among_the_steps",
}
"""Options that no setting of the matrix turns on, and the test that holds each."""


def node(test: str) -> str:
    """Return a test as the page writes it, without the parameters of a case."""
    return f"`tests/{test.partition('[')[0]}`"


def rules_by_drafter() -> str:
    """Return what is compared for every rule under every drafter."""
    lines = [f"| rule | {' | '.join(ALL_DRAFTERS)} |", "|---" * (1 + len(ALL_DRAFTERS)) + "|"]
    for rule in [*RULES, *LOSSY_RULES]:
        cells = [_compared(rule, drafter) for drafter in ALL_DRAFTERS]
        lines.append(f"| `{rule}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _compared(rule: str, drafter: str) -> str:
    if rule in LOSSY_RULES:
        return "no promise"
    greedy = [name for name, options in SAMPLINGS.items() if not options.get("temperature")]
    if rule in KEEPING_TOKENS:
        return f"tokens {len(SAMPLINGS) if RULES.load(rule).samples else len(greedy)}"
    enumerated = {sampling for of, sampling, _ in LAW_CASES if of == drafter}
    assert rule in KEEPING_LAWS
    assert enumerated, f"no law is enumerated under {drafter}"
    return f"tokens {len(greedy)}, law {len(enumerated)}"


def options() -> str:
    """Return by which settings every sampling option is held."""
    lines = ["| option | tokens, under all drafters | law, over all outcomes | else |", "|---|---|---|---|"]
    enumerated = {sampling for _, sampling, _ in LAW_CASES}
    for name in (field.name for field in fields(SamplingParams)):
        tokens = [setting for setting, options in SAMPLINGS.items() if name in options]
        laws = [setting for setting in enumerated if name in SMALL[setting]]
        assert tokens or name in ELSEWHERE, f"no test holds the option {name}"
        other = node(ELSEWHERE[name]) if name in ELSEWHERE else ""
        lines.append(f"| `{name}` | {_settings(tokens)} | {_settings(laws)} | {other} |")
    return "\n".join(lines)


def _settings(names: list[str]) -> str:
    return f"{len(names)} setting{'s' * (len(names) > 1)}" if names else ""


def known_faults() -> str:
    """Return every known fault with the test that finds it, area by area."""
    parts = []
    for area, faults in AREAS.items():
        rows = [f"| {fault.what} | {node(fault.test)} |" for fault in faults]
        parts.append("\n".join([f"### {area}", "", "| fault | test that finds it |", "|---|---|", *rows]))
    return "\n\n".join(parts)


PARTS: dict[str, Callable[[], str]] = {
    "rules by drafter": rules_by_drafter,
    "options": options,
    "faults": known_faults,
}


def with_parts(page: str) -> str:
    """Return the page with every generated part anew."""
    for name, make in PARTS.items():
        begin, end = f"<!-- generated: {name} -->\n", f"\n<!-- end: {name} -->"
        before, found, rest = page.partition(begin)
        assert found, f"the page has no part {name!r}"
        page = before + begin + make() + end + rest.partition(end)[2]
    return page


def named_tests(page: str) -> set[tuple[str, str]]:
    """Return (file, test) for each test that the page names."""
    return set(re.findall(r"`(?:tests/)?([\w/]*test_\w+\.py)::(test_\w+)`", page))


if __name__ == "__main__":
    PAGE.write_text(with_parts(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
