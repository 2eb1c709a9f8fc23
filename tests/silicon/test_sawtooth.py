"""A product's size swept in steps of 64 on profile h200, against the card: its cliffs, its times.

`pytest -m silicon -s tests/silicon/test_sawtooth.py` prints the table. 65 sizes take some three minutes of two cores.
"""

from __future__ import annotations

import csv
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

import sim
from tests.silicon.hopper.cases import SUITE, Case

pytestmark = [
    pytest.mark.silicon,
    pytest.mark.skipif(not SUITE.is_dir(), reason="the card's measurements are beside the repository"),
]
CLIFF = 0.15  #: of the operations a second, from one size to the next
SHORT = 100e-6  #: seconds; longer launches meet the card's limit of power, which lowers its clock
#: Seconds of a Triton kernel that does nothing, by the timer that the times are of, `triton.testing.do_bench` on that
#: card: the median of 15, from 3.07 to 3.84. What is beyond a launch's own cycles lies between the events.
NOTHING = 3.49e-6


@sim.kernel
def nothing(k: Any, x: Any) -> None:
    pass


def simulated(size: int) -> float:
    """Seconds of the product with tiles of 128x256x64."""
    case = Case("triton_gemm", (("n", str(size)), ("tile", "128x256x64")), 0, 0)
    return sim.simulate(case.launch(), gpu="h200", detail="full").seconds


def test_sawtooth() -> None:
    """Times with times, at the clock that each had: tensor cores lower it on the card and in the model."""
    with open(SUITE / "gemm_tile_times.csv", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["bm"] == "128" and int(row["n"]) % 64 == 0]
    sizes = np.array([int(row["n"]) for row in rows])
    card = np.array([float(row["us"]) for row in rows]) * 1e-6
    events = NOTHING - sim.simulate(nothing.launch(1, 256, args=(sim.zeros(1),)), gpu="h200").seconds
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        here = np.array(list(pool.map(simulated, sizes.tolist()[::-1])))[::-1] + events
    for size, theirs, ours in zip(sizes, card, here, strict=True):
        print(f"n={size:<5} {theirs * 1e6:8.1f} us {ours * 1e6:8.1f} us {ours / theirs - 1:+7.1%}")
    rates = [2 * sizes**3.0 / seconds for seconds in (card, here)]
    cliffs = [sizes[1:][rate[1:] < (1 - CLIFF) * rate[:-1]].tolist() for rate in rates]
    error = np.abs(here / card - 1)[card < SHORT].mean()
    correlation = np.corrcoef(*rates)[0, 1]
    alone = np.abs((here - events) / card - 1)[card < SHORT].mean()
    print(f"correlation {correlation:.4f}, cliffs {cliffs}, below 100 us {error:.1%} off on average")
    print(f"of which {events * 1e6:.2f} us are the events': {alone:.1%} off without")
    assert correlation >= 0.98
    assert cliffs[0] == cliffs[1]
    assert error <= 0.12
