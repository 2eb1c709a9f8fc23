"""Hopper's products as compiled, on profile h200, against the card: results and cycles.

`pytest -m silicon -s tests/silicon/test_hopper.py` prints the table.
"""

from __future__ import annotations

import pytest

import sim
from tests.silicon.hopper.cases import SUITE, Case, measured
from tests.silicon.hopper.cases import kernels as kernels_of

pytestmark = [
    pytest.mark.silicon,
    pytest.mark.skipif(not SUITE.is_dir(), reason="the card's measurements are beside the repository"),
]
MEAN_ERROR = 0.12  #: of cycles
FARTHEST = 0.30
MOST_OPERATIONS = 2 * 4096**3 + 1


def operations(case: Case) -> int:
    s = case.sizes
    return 2 * int(s["n"]) ** 3 if "tile" in s else 2 * int(s["m"]) * int(s["n"]) * int(s["k"])


def error_of(case: Case) -> float:
    launch = case.launch()
    report = sim.simulate(launch, gpu="h200", detail="full")
    if operations(case) < 2e9:
        launch.check(report)
    if "tile" in case.sizes:  # no barrier that a warp tries again: every instruction is the card's
        assert report["smsp__inst_executed.sum"] == case.instructions
    error = report.cycles / case.cycles - 1
    print(f"{case.label:62} {case.cycles:>9,} {report.cycles:>9,} {error:+7.1%}", flush=True)
    return error


@pytest.mark.parametrize("file", ["gemm_schedules_counters.csv", "gemm_tile_counters.csv"])
def test_cycles(file: str) -> None:
    cases = [c for c in measured(file) if operations(c) < MOST_OPERATIONS and c.sizes.get("n") != "1793"]
    errors = {case: error_of(case) for case in cases}
    mean = sum(map(abs, errors.values())) / len(errors)
    print(f"{file}: mean {mean:.1%} over {len(errors)}")
    assert mean <= MEAN_ERROR
    assert all(abs(error) <= FARTHEST for error in errors.values())


def test_the_listings_hold_what_they_say() -> None:
    assert len(kernels_of("gemm_schedules")) == 3
    assert [len(kernels_of(f"gemm_tile_{tile}")) for tile in ("128x256", "64x64")] == [1, 1]
