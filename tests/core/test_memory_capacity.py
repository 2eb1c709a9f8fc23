"""What stays in the L2: its size, copies of the other partition's lines, dirty and partly written lines."""

from __future__ import annotations

import numpy as np
import pytest

from sim._jit import COMPILED
from sim.core.address_map import home_partition, l2_set, line_number
from sim.core.dram import settle
from sim.core.l2 import clean_way, most
from sim.core.memory_state import (
    DIRTY,
    DIRTY_SHIFT,
    M_PARTITION,
    REDUCTION,
    STATE_BITS,
    STORE,
    TICK,
    VALID,
)
from sim.counters import Mem
from sim.memory_system import MemorySystem
from sim.profile import load_profile
from tests.core.memory_packets import BASE, Bench, Stream, run, stream_of

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


def set_of(bench: Bench, line: int) -> int:
    """The set of a line of global memory, in either partition."""
    return int(l2_set(line_number(BASE + line), bench.cfg))


def same_set(bench: Bench, n: int) -> list[int]:
    """Lines of one set of the toy's L2."""
    return [k for k in range(200 * n) if set_of(bench, k) == set_of(bench, 0)][:n]


def test_the_least_recently_used_line_leaves() -> None:
    bench = Bench("toy")
    lines = same_set(bench, 9)  # 8 ways
    for t, line in enumerate([*lines[:8], lines[0], lines[8]]):
        bench.one(1000 * t, line)
    hit = bench.profile.l2.hit_latency_cycles
    assert bench.one(20_000, lines[0]) == hit
    assert bench.one(30_000, lines[1]) > hit


def written_after(bench: Bench, line: int, others: list[int]) -> list[int]:
    """Sectors written to DRAM after a store to `line` and a load of each of `others`, with DRAM idle in between."""
    bench.one(0, line, kind=STORE)
    counts = []
    for t, other in enumerate(others):
        bench.one(10_000 * (t + 1), other)
        settle(bench.memory.state, bench.cfg, 1000 * TICK)
        counts.append(bench.count(Mem.DRAM_WRITE))
    return counts


def test_a_dirty_line_is_written_when_enough_lines_came_after_it_and_stays() -> None:
    bench = Bench("toy")  # dirty_ways = 5 of 8
    first, *others = same_set(bench, 8)
    way = clean_way(line_number(BASE + first), bench.cfg)
    counts = written_after(bench, first, others)
    assert 5 <= way <= 8
    assert counts == [0] * (min(way, 7) - 1) + [4] * (8 - min(way, 7))
    assert bench.one(500_000, first) == bench.profile.l2.hit_latency_cycles


def test_lines_are_cleaned_at_different_ways() -> None:
    ways = [clean_way(line, Bench("h200").cfg) for line in range(9000)]
    assert np.bincount(ways).tolist()[8:] == pytest.approx([1000] * 9, rel=0.1)


@pytest.mark.parametrize(("idle", "written"), [(0, 0), (1000, 4)])
def test_a_dirty_line_waits_for_an_idle_channel(idle: int, written: int) -> None:
    bench = Bench("toy")
    first, *others = same_set(bench, 6)
    while clean_way(line_number(BASE + first), bench.cfg) > 5:
        first, *others = (line + 1 for line in (first, *others))
    assert len({set_of(bench, line) for line in (first, *others)}) == 1
    bench.one(0, first, kind=STORE)
    for t, line in enumerate(others):
        bench.one(10_000 * (t + 1), line)
    settle(bench.memory.state, bench.cfg, idle * TICK)
    assert bench.count(Mem.DRAM_WRITE) == written


def test_of_too_many_that_wait_the_first_are_written_at_once() -> None:
    bench = Bench("toy", dram__idle_write_entries=1, l2__partial_lines=1.0, dram__channels=1)
    for t, line in enumerate(same_set(bench, 4)):
        bench.one(1000 * t, line, kind=STORE, sectors=0b0001_0001, asked=4)
    assert bench.count(Mem.DRAM_READ) == 3
    assert bench.count(Mem.DRAM_WRITE) == 2


@pytest.mark.parametrize(("lines", "written"), [(4, 0), (5, 4), (8, 16)])
def test_a_set_has_no_more_than_so_many_dirty_lines(lines: int, written: int) -> None:
    bench = Bench("toy", l2__dirty_ways=7)  # dirty_lines = 4
    for t, line in enumerate(same_set(bench, lines)):
        bench.one(1000 * t, line, kind=STORE)
    assert bench.count(Mem.DRAM_WRITE) == written


def test_the_limit_of_dirty_lines_may_be_a_fraction() -> None:
    assert sum(most(round(7.5 * TICK), row) for row in range(100)) == 750
    assert {most(round(7.5 * TICK), row) for row in range(100)} == {7, 8}


@pytest.mark.parametrize(("lines", "fetched"), [(2, 0), (3, 1), (5, 3)])
def test_a_set_has_no_more_than_so_many_partly_written_lines(lines: int, fetched: int) -> None:
    bench = Bench("toy", l2__dirty_ways=7, l2__dirty_lines=8.0)  # partial_lines = 2
    for t, line in enumerate(same_set(bench, lines)):
        bench.one(1000 * t, line, kind=STORE, sectors=0b0001_0011, asked=36)  # a whole sector beside
    assert bench.count(Mem.DRAM_READ) == fetched
    bench.memory.begin_launch()
    dirty = [(int(word) & DIRTY) >> DIRTY_SHIFT for word in bench.memory.state.sets.ravel() if word >= 0]
    assert sorted(dirty) == sorted([0b0011] * (lines - fetched) + [0b0010] * fetched), "whole sectors stay"


@pytest.mark.parametrize(("sms", "place"), [((0,), 0), ((0, 2), 4)])
def test_copies_for_one_sm_stay_behind_and_those_for_several_do_not(sms: tuple[int, ...], place: int) -> None:
    """After a load of a line at home, loads of four lines of the other partition: where the first one is then."""
    bench = Bench("h200", launch_traffic__dirty_bytes=128)
    near = int(bench.memory.state.sms[0, M_PARTITION])
    lines = [k for k in range(0, 4_000_000, 32) if set_of(bench, k) == set_of(bench, 0)]
    at_home = np.array([home_partition(line_number(BASE + k), 2) == near for k in lines])
    own, far = np.array(lines)[at_home][0], np.array(lines)[~at_home][:4]
    for t, (line, sm) in enumerate([(own, 0), *((line, sm) for line in far for sm in sms)]):
        bench.one(10_000 * t, int(line), sm=sm)
    row = bench.memory.state.sets[near * bench.cfg.slices * bench.cfg.sets + set_of(bench, 0)]
    assert (row >> STATE_BITS).tolist().index(line_number(BASE + int(own))) == place


def test_what_a_profiler_leaves_is_written_when_a_kernel_needs_its_place() -> None:
    memory = MemorySystem(load_profile("h200").override({"launch_traffic.dirty_bytes": 128_000}))
    words = memory.state.sets[memory.state.sets >= 0]
    assert len(words) == 1000 and ((words & (DIRTY | VALID)) == (DIRTY | VALID)).all()
    memory.flush()
    assert (memory.state.sets >= 0).sum() == 1000


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
    hits = [bench.profile.l2.hit_latency_cycles + bench.profile.l2.sm_distance_cycles[sm] for sm in sms]
    assert [bench.one(9000 + 3000 * t, line, sm=sm) for t, sm in enumerate(sms)] == hits
    for t, sm in enumerate(sms):
        bench.one(20_000 + 3000 * t, line, sm=sm, kind=REDUCTION, ops=32)
    assert max(bench.one(30_000 + 3000 * t, line, sm=sm) for t, sm in enumerate(sms)) > max(hits)


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
