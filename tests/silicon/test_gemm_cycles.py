"""Do Hopper's matrix products take as long as on a measured H200? Run with `pytest -m silicon -s`."""

from __future__ import annotations

import csv
import statistics
from dataclasses import dataclass
from pathlib import Path

import pytest

import sim
from sim.launch import Launch
from workloads import gemm

pytestmark = pytest.mark.silicon

TABLE = Path(__file__).with_name("gemm.csv")
MEAN_CYCLE_ERROR = 0.12
LARGEST = 2048  #: rows of products that are simulated here


@dataclass(frozen=True)
class Case:
    """One launch of the card and its counters."""

    name: str
    m: int
    n: int
    k: int
    tile: tuple[int, ...]
    cycles: int

    def launch(self) -> Launch:
        workload = getattr(gemm, self.name)
        if self.name == "async_tile":
            return workload(self.m, self.n, self.k, tile=self.tile, warps=self.tile[0] // 16)
        return workload(self.m, self.n, self.k, tile=self.tile)


def cases(*names: str) -> list[Case]:
    """The launches of these names that are small enough, with aligned rows."""
    with open(TABLE, newline="") as file:
        rows = list(csv.DictReader(file))
    made = [
        Case(
            row["case"],
            *(int(row[size]) for size in "mnk"),
            tuple(map(int, row["tile"].split("x"))),
            int(row["sm__cycles_elapsed.max"]),
        )
        for row in rows
    ]
    return [case for case in made if case.name in names and case.m <= LARGEST and case.n % 8 == 0]


def errors(names: tuple[str, ...]) -> list[float]:
    """Simulated cycles / the card's - 1 of each launch; prints a line for each."""
    found = []
    for case in cases(*names):
        cycles = sim.simulate(case.launch()).cycles
        found.append(cycles / case.cycles - 1)
        size = f"{case.m}x{case.n}x{case.k}"
        tile = "x".join(map(str, case.tile))
        print(f"{case.name:12s} {size:15s} {tile:10s} card {case.cycles:7,} simulated {cycles:7,} {found[-1]:+6.1%}")
    return found


@pytest.mark.parametrize("names", [("basic", "cooperative", "pingpong"), ("async_tile",)])
def test_cycles_are_near_the_cards_on_average(names: tuple[str, ...]) -> None:
    found = errors(names)
    mean = statistics.mean(map(abs, found))
    print(f"mean absolute error {mean:.1%}")
    assert mean <= MEAN_CYCLE_ERROR
