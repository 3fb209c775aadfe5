"""docs/guarantees.md says what the tests cover, and names tests that exist; known faults can be put in."""

from __future__ import annotations

import pytest

from faults import AREAS, Fault
from page import PAGE, ROOT, named_tests, with_parts

FAULTS = [fault for faults in AREAS.values() for fault in faults]


def holds(file: str, name: str) -> bool:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob(f"**/{file}")]
    return any(f"def {name}(" in source for source in sources)


def test_what_is_generated_is_up_to_date() -> None:
    """`python tests/page.py` writes it anew."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_parts(page) == page


def test_every_test_named_on_the_page_exists() -> None:
    named = named_tests(PAGE.read_text(encoding="utf-8"))
    assert len(named) >= 60
    assert [(file, name) for file, name in named if not holds(file, name)] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_known_fault_can_be_put_in_and_its_test_exists(fault: Fault) -> None:
    """`make faults` puts each in and sees its test fail; code that has moved on takes the fault along."""
    for file in fault.files:
        compile(fault.faulty(file), file, "exec", dont_inherit=True)
    file, _, name = fault.test.partition("::")
    assert holds(file, name.partition("[")[0])
