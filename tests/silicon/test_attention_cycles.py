"""Does FlashAttention take as long as the library's on a measured H200? Run with `pytest -m silicon -s`."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

import sim
from sim.report import Report
from workloads import attention

pytestmark = pytest.mark.silicon

TABLE = Path(__file__).with_name("attention.csv")
MEAN_CYCLE_ERROR = 0.15
DRAM_READ_ERROR = 0.05
CYCLES, TENSOR, READ, WRITTEN = (
    "sm__cycles_elapsed.max", "sm__inst_executed_pipe_tensor.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
)  # fmt: skip
LARGEST = 1024  #: positions up to which the kernel for Ampere is simulated in full, so that its counts are exact


def cases(name: str) -> list[dict[str, str]]:
    """The card's launches of a kernel."""
    with open(TABLE, newline="") as file:
        return [row for row in csv.DictReader(file) if row["case"] == name]


def simulate(name: str, row: dict[str, str]) -> tuple[Report, bool]:
    """The launch's report, and whether all of it was executed; prints a line."""
    sizes = {size: int(row[size]) for size in ("b", "h", "n", "d")}
    full = name == "flash_hopper" or sizes["n"] <= LARGEST
    launch = getattr(attention, name)(**sizes, causal=row["causal"] == "1")
    report = sim.simulate(launch, detail="full" if full else "auto")
    figures = [(int(row[metric]), report[metric]) for metric in (CYCLES, READ, WRITTEN)]
    text = "  ".join(f"{card:11,} {found:11,.0f} {found / card - 1:+6.1%}" for card, found in figures)
    print(f"{name:12s} n={sizes['n']:<4} causal={row['causal']}  {text}{'' if full else '  sampled'}", flush=True)
    return report, full


@pytest.mark.parametrize("name", ["flash", "flash_hopper"])
def test_cycles_and_bytes_are_near_the_cards(name: str) -> None:
    print("\nkernel, launch; the card's and the simulated cycles, bytes read, bytes written")
    errors = []
    for row in cases(name):
        report, full = simulate(name, row)
        errors.append(report.cycles / int(row[CYCLES]) - 1)
        if full:
            assert report[READ] == pytest.approx(int(row[READ]), rel=DRAM_READ_ERROR)
            assert report[TENSOR] == int(row[TENSOR])
    mean = statistics.mean(map(abs, errors))
    print(f"mean absolute error {mean:.1%}")
    assert mean <= MEAN_CYCLE_ERROR
