"""Does attention take as long as the library's on a measured H200, fused or not? Run with `pytest -m silicon -s`."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

import sim
from sim.launch import Launch
from sim.report import Report
from workloads import attention

pytestmark = pytest.mark.silicon

COUNTERS, TIMES = (Path(__file__).with_name(name) for name in ("attention.csv", "attention_times.csv"))
RATIO_ERROR = 0.20
LONGEST = 2048  #: positions up to which scores, which go through memory, fit the host's
MEAN_CYCLE_ERROR = 0.15
DRAM_READ_ERROR = 0.05
CYCLES, TENSOR, READ, WRITTEN = (
    "sm__cycles_elapsed.max", "sm__inst_executed_pipe_tensor.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
)  # fmt: skip
LARGEST = 1024  #: positions up to which the kernel for Ampere is simulated in full, so that its counts are exact


def rows_of(table: Path) -> list[dict[str, str]]:
    with open(table, newline="") as file:
        return list(csv.DictReader(file))


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
    for row in (row for row in rows_of(COUNTERS) if row["case"] == name):
        report, full = simulate(name, row)
        errors.append(report.cycles / int(row[CYCLES]) - 1)
        assert report[READ] == pytest.approx(int(row[READ]), rel=DRAM_READ_ERROR)
        if full:
            assert report[TENSOR] == int(row[TENSOR])
    mean = statistics.mean(map(abs, errors))
    print(f"mean absolute error {mean:.1%}")
    assert mean <= MEAN_CYCLE_ERROR


@pytest.mark.parametrize("row", [row for row in rows_of(TIMES) if row["eager_us"] and int(row["n"]) <= LONGEST])
def test_what_fusing_saves_is_what_it_saves_on_the_card(row: dict[str, str]) -> None:
    """Scores, scale, softmax and product as kernels of their own take so many times longer than FlashAttention."""
    sizes = {size: int(row[size]) for size in ("b", "h", "n", "d")}
    steps = [microseconds(launch) for launch in attention.unfused(**sizes)]
    fused = microseconds(attention.flash(**sizes))
    ratio, card = sum(steps) / fused, float(row["eager_us"]) / float(row["flash_us"])
    print(
        f"\nn={sizes['n']}: {' + '.join(f'{x:.0f}' for x in steps)} = {sum(steps):.0f} us, the card {row['eager_us']}; "
        f"flash {fused:.0f} us, the card {row['flash_us']}; ratio {ratio:.2f}, the card {card:.2f}, "
        f"{ratio / card - 1:+.1%}"
    )
    assert ratio == pytest.approx(card, rel=RATIO_ERROR)


def microseconds(launch: Launch) -> float:
    return sim.simulate(launch)["gpu__time_duration.sum"] / 1e3
