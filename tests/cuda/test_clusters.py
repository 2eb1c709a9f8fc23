"""Compiled kernels of thread block clusters: what they compute, and that they take what the card takes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.sass import Kernels
from tests.cuda.extras import needs_cuda
from tests.silicon.microbench import rows

MICROBENCH = Path(__file__).parents[1] / "silicon" / "microbench" / "microbench_9.cu"
#: what `bench` measures, and how far a simulated figure may be from the card's
MEASURED = {
    "barrier_relaxed": (0, 0.1),
    "barrier_release": (1, 0.12),
    "fence_cluster": (2, 0.05),
    "load_4": (3, 0.2),
    "store_4": (5, 0.1),
    "store_16": (6, 0.1),
    "atomic_chain": (7, 0.1),
    "red_4": (8, 0.1),
    "arrive_relaxed_ring": (9, 0.1),
    "arrive_release_ring": (10, 0.1),
    "st_async_ring": (11, 0.2),
    "bulk_shared": (12, 0.15),
    "multicast": (13, 0.1),
}
TURNS = {
    "barrier_relaxed": 256,
    "barrier_release": 256,
    "fence_cluster": 256,
    "atomic_chain": 256,
    "arrive_relaxed_ring": 256,
    "arrive_release_ring": 256,
    "st_async_ring": 256,
}  #: of the measured loops; 64 of the others, as on the card


@cache
def kernels() -> Kernels:
    return sim.compile_cuda(Path(__file__).with_name("clusters.cu"), "sm_90a")


@cache
def bench() -> Any:
    """The device part of microbench_9."""
    text = MICROBENCH.read_text()
    text = text[text.index("typedef long long ll;") : text.index("__global__ void empty")]
    return sim.compile_cuda("typedef unsigned long long uint64_t;\n" + text, "sm_90a")["bench"]


def outputs(name: str, grid: Any, *args: Any, threads: int = 32, **fields: Any) -> dict[str, Any]:
    report = sim.simulate(sim.Launch(kernels()[name], grid, threads, args, **fields))
    return dict(report.outputs)


@needs_cuda
def test_a_histogram_of_cooperative_groups() -> None:
    assert kernels()["histogram"].cluster == (4, 1, 1)
    x = np.random.default_rng(0).integers(0, 256, 5000).astype(np.int32)
    got = outputs("histogram", 8, np.int32(len(x)), x, sim.zeros(256, np.int32), threads=128)["arg2"]
    assert (got == np.bincount(x, minlength=256)).all()


@needs_cuda
@pytest.mark.parametrize("cluster", [(3, 2), (1, 1), (2, 4)])
def test_where_a_block_is_in_its_cluster(cluster: tuple[int, int]) -> None:
    cx, cy = cluster
    got = outputs("places", (12, 8), sim.zeros((96, 6), np.uint32), cluster=cluster)["arg0"].reshape(8, 12, 6)
    y, x = np.mgrid[:8, :12]
    ranks = x % cx + cx * (y % cy)
    if cluster != (1, 1):  # cooperative groups ask for the rank in any case, for the others where clusters are
        for k, right in enumerate((ranks, cx * cy, x % cx, y % cy)):
            assert (got[..., k] == right).all()
    assert (got[..., 4] == x // cx).all() and (got[..., 5] == 8 // cy).all()


@needs_cuda
@pytest.mark.parametrize("what", [0, 1, 2])
@pytest.mark.parametrize("size", [2, 8])
def test_what_a_block_sends_to_the_next(what: int, size: int) -> None:
    x = np.random.default_rng(1).integers(0, 1000, (16, 32)).astype(np.int32)
    got = outputs("send", 16, np.int32(what), x, sim.zeros((16, 32), np.int32), cluster=size)["arg2"]
    right = np.roll(x.reshape(-1, size, 32), 1, 1).reshape(16, 32)
    assert (got == right + (100 if what == 1 else 0)).all()


@needs_cuda
@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_multicast_and_a_reduction_by_tma(size: int) -> None:
    g = np.random.default_rng(2).integers(-9, 9, (8 // size, 128)).astype(np.float32)
    got = outputs("share", 8, g, np.ones(128, np.float32), cluster=size)["arg1"]
    assert (got == 1 + size * g.sum(0)).all()


@needs_cuda
@pytest.mark.parametrize("expected", [0, 1])
def test_an_mbarrier_waits_for_copies(expected: int) -> None:
    x = np.arange(4 * 32 * 4, dtype=np.int32)
    got = outputs("copies", 4, np.int32(expected), x, sim.zeros(len(x), np.int32))["arg2"]
    assert (got.reshape(4, 32, 4) == np.roll(x.reshape(4, 32, 4), -1, 1)).all()


def simulated(row: dict[str, Any], what: int) -> float:
    """What `bench` measures in the simulator, a turn, as the card's row has it."""
    dev = sim.Device("h200")
    data, result = dev.empty(2 << 20, np.float32), dev.empty((row["blocks"], 3), np.int64)
    turns = TURNS.get(row["k"], 64)
    numbers = np.array([what, row["bytes"], turns, row["active"]], np.int32)
    args = np.concatenate([numbers.view(np.uint8), np.array([data.address] * 2, np.uint64).view(np.uint8)])
    launch = sim.Launch(
        bench(), row["blocks"], row["threads"], (np.void(args.tobytes()), result), 66560,
        cluster=row["cluster"], non_portable_cluster=True,
    )  # fmt: skip
    for _ in range(2):  # as the card's: with warm caches
        dev.launch(launch)
    found = result.numpy()
    cycles = found[found[:, 2] < row["active"], 0].mean() / turns
    return float(cycles / 8 if row["k"] in ("load_4", "store_4", "store_16", "red_4") else cycles)


@needs_cuda
@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("size", [2, 8])
def test_clusters_take_what_they_take_on_the_card(name: str, size: int) -> None:
    if name == "fence_cluster":
        size = 2  # it was measured once
    what, bound = MEASURED[name]
    found = rows(9, k=name, cluster=size, blocks=size)
    found = [row for row in found if row["threads"] in (32, 256, 1024) and row["bytes"] in (0, 4, 16, 4096, 16384)]
    if name == "load_4":
        found = [row for row in found if row["threads"] > 32]  # of one warp the loop's own code takes longer
    assert found
    for row in found:
        assert simulated(row, what) == pytest.approx(row["cycles"], rel=bound), row
