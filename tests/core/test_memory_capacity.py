"""What stays in the L2: its size, copies of the other partition's lines, dirty and partly written lines."""

from __future__ import annotations

import numpy as np
import pytest

from sim._jit import COMPILED
from sim.core.memory_state import M_PARTITION, REDUCTION, STORE
from sim.counters import Mem
from sim.memory_system import MemorySystem
from sim.profile import load_profile
from tests.core.memory_packets import Bench, Stream, run, stream_of

compiled = pytest.mark.skipif(not COMPILED, reason="too many packets without a compiler")


def from_partition_0(memory: MemorySystem, lines: np.ndarray) -> Stream:
    """Loads of `lines`, dealt to the SMs of one L2 partition."""
    partition = memory.state.sms[:, M_PARTITION]
    sharers = np.flatnonzero(partition == 0).tolist()
    per_sm = [np.zeros((0, 5), np.int64)] * len(partition)
    for k, sm in enumerate(sharers):
        mine = lines[k :: len(sharers)]
        per_sm[sm] = np.zeros((len(mine), 5), np.int64)
        per_sm[sm][:, 0], per_sm[sm][:, 1], per_sm[sm][:, 3] = mine, 15, 128
    return stream_of(per_sm)


@compiled
@pytest.mark.parametrize(("mib", "far"), [(24, 0.0), (40, 0.5), (50, 0.5)])
def test_a_partition_finds_half_of_the_l2_near(mib: int, far: float) -> None:
    """The card's chase: 290 cycles up to 24 MiB, 428 at 40 and 50, half way from near to far."""
    memory = MemorySystem(load_profile("h200"))
    lines = np.random.default_rng(2).permutation(mib * 8192)
    run(memory, from_partition_0(memory, lines))
    memory.begin_launch()
    run(memory, from_partition_0(memory, lines), start=10_000_000)
    counts = memory.counts()
    assert counts[Mem.L2_TEX_MISS] / counts[Mem.L2_TEX] == pytest.approx(far, abs=0.02)
    assert counts[Mem.DRAM_READ] == 0


@compiled
@pytest.mark.parametrize(("gpu", "mib", "fits"), [("v100_sxm2", 5, True), ("v100_sxm2", 7, False), ("t4", 4, True)])
def test_an_array_within_the_l2_stays(gpu: str, mib: int, fits: bool) -> None:
    memory = MemorySystem(load_profile(gpu))
    lines = np.arange(mib * 8192)
    run(memory, from_partition_0(memory, lines))
    memory.begin_launch()
    run(memory, from_partition_0(memory, lines), start=10_000_000)
    assert bool(memory.counts()[Mem.DRAM_READ] == 0) is fits


def same_set(bench: Bench, n: int) -> list[int]:
    """Lines of one set of the toy's L2."""
    from sim.core.address_map import l2_set, line_number
    from tests.core.memory_packets import BASE

    wanted = l2_set(line_number(BASE), bench.cfg)
    return [k for k in range(200 * n) if l2_set(line_number(BASE + k), bench.cfg) == wanted][:n]


def test_the_least_recently_used_line_leaves() -> None:
    bench = Bench("toy")
    lines = same_set(bench, 9)  # 8 ways
    for t, line in enumerate([*lines[:8], lines[0], lines[8]]):
        bench.one(1000 * t, line)
    hit = bench.profile.l2.hit_latency_cycles
    assert bench.one(20_000, lines[0]) == hit
    assert bench.one(30_000, lines[1]) > hit


@pytest.mark.parametrize(("later", "written"), [(4, 0), (5, 4)])
def test_a_dirty_line_is_written_back_when_enough_lines_came_after_it(later: int, written: int) -> None:
    bench = Bench("toy")  # dirty_ways = 5
    first, *others = same_set(bench, 1 + later)
    bench.one(0, first, kind=STORE)
    for t, line in enumerate(others):
        bench.one(1000 * (t + 1), line)
    assert bench.count(Mem.DRAM_WRITE) == written
    assert bench.one(50_000, first) == bench.profile.l2.hit_latency_cycles, "the line stays"


@pytest.mark.parametrize(("later", "fetched"), [(1, 0), (2, 1)])
def test_a_partly_written_sector_is_filled_when_the_line_falls_back(later: int, fetched: int) -> None:
    bench = Bench("toy")  # partial_ways = 2
    first, *others = same_set(bench, 1 + later)
    bench.one(0, first, kind=STORE, sectors=0b0001_0001, asked=4)
    for t, line in enumerate(others):
        bench.one(1000 * (t + 1), line, kind=STORE)
    assert bench.count(Mem.DRAM_READ) == fetched
    assert bench.count(Mem.DRAM_WRITE) == fetched


def test_reading_a_partly_written_sector_fetches_it() -> None:
    bench = Bench("toy")
    bench.one(0, 3, kind=STORE, sectors=0b0001_0001, asked=4)
    assert bench.one(1000, 3, sectors=0b0001) > bench.profile.l2.hit_latency_cycles
    assert bench.count(Mem.DRAM_READ) == 1


def test_a_sector_written_piece_by_piece_needs_no_fill() -> None:
    bench = Bench("toy")
    for t in range(8):
        bench.one(1000 * t, 3, kind=STORE, sectors=0b0001_0001, asked=4)
    assert bench.one(9000, 3, sectors=0b0001) == bench.profile.l2.hit_latency_cycles
    assert bench.count(Mem.DRAM_READ) == 0


def test_whole_sectors_need_no_fill() -> None:
    bench = Bench("toy")
    bench.one(0, 3, kind=STORE)
    assert bench.one(1000, 3) == bench.profile.l2.hit_latency_cycles
    assert bench.count(Mem.DRAM_READ) == 0


def test_a_store_at_home_takes_the_copy_away() -> None:
    bench = Bench("h200")
    line = 0 if bench.memory.state.sms[0, 0] else 32
    sms = (0, 32)
    for t, sm in enumerate(sms):  # one of them leaves a copy in its own partition
        bench.one(3000 * t, line, sm=sm)
    hit = bench.profile.l2.hit_latency_cycles
    assert [bench.one(9000 + 3000 * t, line, sm=sm) for t, sm in enumerate(sms)] == [hit, hit]
    for t, sm in enumerate(sms):
        bench.one(20_000 + 3000 * t, line, sm=sm, kind=REDUCTION, ops=32)
    assert max(bench.one(30_000 + 3000 * t, line, sm=sm) for t, sm in enumerate(sms)) > hit


def test_flush_empties_the_cache_and_counts_nothing() -> None:
    bench = Bench("toy")
    bench.one(0, 3, kind=STORE)
    bench.memory.flush()
    assert bench.count(Mem.DRAM_WRITE) == 0
    assert bench.one(1000, 3) > bench.profile.l2.hit_latency_cycles


def test_a_new_launch_counts_from_zero_and_finds_the_caches_warm() -> None:
    bench = Bench("toy")
    bench.one(0, 3)
    bench.memory.end_launch()
    bench.memory.begin_launch()
    assert not bench.memory.counts().any()
    assert bench.one(3000, 3) == bench.profile.l2.hit_latency_cycles
