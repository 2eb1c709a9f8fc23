"""The smallest launches of the measured card, in seconds, with `pytest -m silicon`; `test_silicon.py` has them all."""

from __future__ import annotations

import pytest

from tests.silicon.cases import Case, covered_cases
from tests.silicon.compare import DEVIATIONS, INSTRUCTIONS, compare

pytestmark = pytest.mark.silicon

MOST_INSTRUCTIONS = 1_300_000
FARTHEST = 1.5  #: no launch takes so many times the card's cycles, or so many times fewer


def smallest_of_each_kernel() -> list[Case]:
    smallest: dict[str, Case] = {}
    for case in sorted(covered_cases(), key=lambda case: case.counters[INSTRUCTIONS]):
        smallest.setdefault(case.name, case)
    return [case for case in smallest.values() if case.counters[INSTRUCTIONS] <= MOST_INSTRUCTIONS]


@pytest.mark.parametrize("case", smallest_of_each_kernel(), ids=lambda case: case.label)
def test_a_launch_counts_what_the_card_counted_and_takes_about_as_long(case: Case) -> None:
    comparison = compare(case)
    new = [counter for counter in comparison.differing() if (case.name, counter) not in DEVIATIONS]
    ratio = comparison.cycle_error + 1
    assert (new, 1 / FARTHEST < ratio < FARTHEST) == ([], True), f"cycles: {ratio:.2f} of the card's"
