"""Rates that streams of packets reach: DRAM, L2, ports and atomics, beside what cards reach."""

from __future__ import annotations

from math import remainder
from typing import Any

import numpy as np
import pytest

from sim._jit import COMPILED
from sim.core.memory_state import ATOMIC, LOAD, REDUCTION, STORE
from sim.counters import Mem
from sim.memory_system import MemorySystem, gpc_of_each_sm
from sim.profile import load_profile
from tests.core.memory_packets import (
    BASE,
    STEP,
    WHOLE,
    Bench,
    Stream,
    blocks_of_lines,
    bytes_per_second,
    requests,
    run,
    stream_of,
)
from tests.silicon.microbench import rows

pytestmark = pytest.mark.skipif(not COMPILED, reason="too many packets without a compiler")

READ, COPY, WRITE, TRIAD = ((0, LOAD),), ((0, LOAD), (1, STORE)), ((1, STORE),), ((0, LOAD), (1, LOAD), (2, STORE))


@pytest.mark.parametrize(
    ("gpu", "arrays", "mib", "card", "tolerance"),
    [
        ("h200", READ, 128, 4447, 0.03),
        ("h200", COPY, 64, 3850, 0.05),
        ("h200", WRITE, 96, 4274, 0.05),  # 512 MiB against 256, so without the launch
        ("a100_sxm_40gb", READ, 48, 1490, 0.03),
        ("a100_sxm_40gb", TRIAD, 32, 1360, 0.05),
        ("a100_sxm_80gb", READ, 48, 1769, 0.03),
        ("a100_sxm_80gb", TRIAD, 32, 1700, 0.05),
        ("h100_sxm", READ, 96, 3180, 0.03),
        ("v100_sxm2", READ, 24, 866, 0.03),
        ("rtx_4090", READ, 80, 930, 0.03),
    ],
)
def test_dram_streams_as_fast_as_on_the_card(
    gpu: str, arrays: tuple[tuple[int, int], ...], mib: int, card: float, tolerance: float
) -> None:
    """Two passes over arrays larger than the L2; the second one's traffic, evictions of the first one's included."""
    profile = load_profile(gpu)
    memory = MemorySystem(profile)
    stream = blocks_of_lines(profile, mib, *arrays)
    now = 1000 + run(memory, stream)
    memory.begin_launch()
    cycles = run(memory, stream, start=now)
    assert bytes_per_second(memory, profile, cycles) == pytest.approx(card, rel=tolerance)


@pytest.mark.parametrize(("gpu", "mib", "card"), [("h200", 24, 4711), ("a100_sxm_40gb", 16, 3840)])
def test_l2_streams_as_fast_as_on_the_card(gpu: str, mib: int, card: float) -> None:
    """Bytes a cycle of an array that each SM reads again, its share of it: 4 passes against one."""
    profile = load_profile(gpu)
    memory = MemorySystem(profile)
    once = blocks_of_lines(profile, mib, *READ)
    often = stream_of([np.tile(rows, (4, 1)) for rows in rows_of(once)])
    now = 1000 + run(memory, once)
    one_pass = run(memory, once, start=now)
    cycles = run(memory, often, start=now + 10_000) - one_pass
    assert 3 * once.length.sum() * 128 / cycles == pytest.approx(card, rel=0.05)


def rows_of(stream: Stream) -> list[np.ndarray]:
    """The stream's packets, one array an SM."""
    table = np.stack([stream.line - BASE, stream.sectors, stream.kind, stream.asked, stream.ops], 2)
    return [table[sm, :n] for sm, n in enumerate(stream.length)]


def few(per_sm: int, sms: int, active: int, kind: int, line: int, step: int) -> Stream:
    """The first `active` SMs send `per_sm` packets each: line, line + step, ... of all sectors."""
    rows = np.zeros((per_sm, 5), np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = line + step * np.arange(per_sm), 15, kind, 128
    return stream_of([rows if sm < active else rows[:0] for sm in range(sms)])


def test_one_sm_gets_its_port_of_data() -> None:
    profile = load_profile("h200").override({"l2.coalesce_cycles": 0})
    memory = MemorySystem(profile)
    stream = few(4096, profile.gpu.sm_count, 1, LOAD, 0, 1)
    run(memory, stream)
    cycles = run(memory, stream, start=100_000, rate=0.5, outstanding=2000)
    assert 4096 * 128 / cycles == pytest.approx(128, rel=0.15)  # less the latency of the first


def test_a_gpc_shares_its_port() -> None:
    profile = load_profile("h200").override({"l2.coalesce_cycles": 0, "l2.gpc_read_bytes_per_cycle": 256.0})
    memory = MemorySystem(profile)
    stream = few(2048, profile.gpu.sm_count, 8, LOAD, 0, 1)  # SMs 0..7 are of one GPC
    run(memory, stream)
    cycles = run(memory, stream, start=100_000, rate=0.5, outstanding=2000)
    assert 8 * 2048 * 128 / cycles == pytest.approx(256, rel=0.05)


def test_one_hot_slice_serves_at_its_own_rate() -> None:
    profile = load_profile("h200").override({"l2.coalesce_cycles": 0})
    memory = MemorySystem(profile)
    stream = few(512, profile.gpu.sm_count, 8, LOAD, 0, 0)  # all of one line, from one partition
    run(memory, stream)
    cycles = run(memory, stream, start=100_000)
    assert 8 * 512 * 128 / cycles == pytest.approx(profile.l2.slice_bytes_per_cycle, rel=0.05)


@pytest.mark.parametrize(
    ("asked", "sectors", "cycles_a_packet"),
    [(4, 0b0001, 1590.66e-6 * 1980e6 / 67584), (128, 0b1111, 176.48e-6 * 1980e6 / 67584)],
    ids=["one word", "one line"],
)
def test_reductions_of_one_address_take_the_cards_time(asked: int, sectors: int, cycles_a_packet: float) -> None:
    """132 blocks of 32 warps, 16 reductions each: 67584 warp operations on one word, and on 32 words of a line."""
    profile = load_profile("h200")
    memory = MemorySystem(profile)
    rows = np.tile(np.array([0, sectors, REDUCTION, asked, 32]), (32, 1))
    stream = stream_of([rows] * profile.gpu.sm_count)
    cycles = run(memory, stream)
    assert cycles / (32 * 132) == pytest.approx(cycles_a_packet, rel=0.1)


@pytest.mark.parametrize(
    ("sectors", "active", "card"),
    [
        (0b1111, 1, 4.09),
        (0b1111, 132, 6.68),
        (0b1111_1111, 1, 39.7 / 8),
        (0b1111_1111, 132, 69.2 / 8),
        (0b0001_0001, 1, 63.8 / 32),
        (0b0001_0001, 132, 107.7 / 32),
    ],
)
def test_stores_leave_as_fast_as_on_the_card(sectors: int, active: int, card: float) -> None:
    """Cycles that an SM takes for a line of whole or partly written sectors, alone or with all others."""
    profile = load_profile("h200")
    memory = MemorySystem(profile)
    stream = few(4096, profile.gpu.sm_count, active, STORE, 0, 1)
    stream.sectors[:] = sectors
    stream.asked[:] = 4
    stream.line[:] = BASE + np.arange(4096) % 128 + np.arange(132)[:, None] * 128  # stays in the L2
    assert run(memory, stream, outstanding=4096) / 4096 == pytest.approx(card, rel=0.1)


def test_joined_loads_get_the_first_ones_answer() -> None:
    bench = Bench("h200")
    first, second = bench.send(0, 5, 5)
    assert second >= first
    assert bench.count(Mem.L2_REQUESTS) == 1
    assert bench.count(Mem.L2_TEX) == 4
    assert bench.count(Mem.XBAR_READ) == 8


def test_loads_join_within_the_window_only() -> None:
    bench = Bench("h200")
    window = bench.profile.l2.coalesce_cycles
    bench.one(0, 5)  # it comes from DRAM
    first, second, third = (bench.one(5000 + time, 5) for time in (0, window, 2 * window + 1))
    assert second == first - window, "it gets the first one's answer"
    assert third == first
    assert bench.count(Mem.L2_REQUESTS) == 3


def test_loads_join_one_that_waits_for_dram() -> None:
    """microbench_10, `joined`: a load of cold data ends with one of its GPC up to 340 cycles before."""
    bench = Bench("h200")
    first, second = bench.one(0, 5), bench.one(340, 5, sm=2)
    distance = bench.profile.l2.sm_distance_cycles
    assert bench.count(Mem.L2_REQUESTS) == 1
    assert abs(first - (340 + second) - (distance[0] - distance[2]) / 2) <= 1


def whole_counts() -> list[dict[str, Any]]:
    """The plans of microbench_34 with a load a block, where the card makes as many requests each time."""
    found = [row for row in rows(34, k="plan") if len(row["plan"]) == 4]
    return [row for row in found if abs(remainder(row["tex_requests"] / row["turns"], 1)) < 0.1]


@pytest.mark.parametrize("row", whole_counts(), ids=lambda row: f"{row['plan']}-{row['apart']}-{row['caches']}")
def test_as_many_loads_of_a_line_are_looked_up_as_on_the_card(row: dict[str, Any]) -> None:
    """Four SMs of a GPC, `apart` cycles after each other, each ask for a sector of a line or for all of it."""
    bench = Bench("h200")
    if row["caches"] == "kept":
        bench.one(0, 5)
    before = bench.count(Mem.L2_REQUESTS)
    for sm, which in enumerate(row["plan"]):
        bench.one(5000 + sm * row["apart"], 5, sm=sm, sectors=WHOLE if which == "w" else 1 << int(which))
    assert bench.count(Mem.L2_REQUESTS) - before == round(row["tex_requests"] / row["turns"])


def test_loads_of_other_sectors_in_other_gpcs_of_the_partition_end_the_joining() -> None:
    """microbench_34, `plans_of_two`: two GPCs make 5 to 7.5 look-ups, not two, if both are in one of two halves."""
    partner = {}
    for row in rows(34, k="plans_of_two", sector=1):
        partner[tuple(row["sms"])] = row["tex_requests"] / row["turns"] > 4
    assert sum(partner.values()) == 12, "on the card: of 28 pairs those of two halves of four"
    profile = load_profile("h200")
    gpcs, halves = gpc_of_each_sm(profile), profile.l2.gpc_partitions
    assert halves is not None
    for a in range(8):
        for b in range(a):
            bench = Bench("h200")
            for turn in range(4):
                bench.one(20 * turn, 5, sm=int(np.argmax(gpcs == a)) + turn, sectors=0b0001)
                bench.one(20 * turn + 10, 5, sm=int(np.argmax(gpcs == b)) + turn, sectors=0b0010)
            assert bench.count(Mem.L2_REQUESTS) == (8 if halves[a] == halves[b] else 2)


def test_loads_that_join_take_their_turn_at_the_slice() -> None:
    """microbench_32: what many SMs ask of one slice at once waits, and comes too late to join."""
    bench = Bench("h200", l2__coalesce_requests=64)
    bench.one(0, 5)
    tex = bench.count(Mem.L2_TEX)
    bench.send(5000, *[5] * 60, sectors=0b0001)
    after = bench.profile.l2.coalesce_cycles * bench.profile.l2.clock_mhz / bench.profile.gpu.clock_mhz
    assert bench.count(Mem.L2_TEX) - tex == 1 + (60 > after)


def test_so_many_loads_join_and_no_more() -> None:
    bench = Bench("h200")
    most = bench.profile.l2.coalesce_requests
    for sm in range(most + 1):
        bench.one(0, 5, sm=sm)
    assert bench.count(Mem.L2_REQUESTS) == 2


def test_loads_of_different_gpcs_do_not_join() -> None:
    bench = Bench("h200")
    bench.one(0, 5, sm=0)
    bench.one(1, 5, sm=20)
    assert bench.count(Mem.L2_REQUESTS) == 2


def test_an_atomic_needs_its_sector_from_dram() -> None:
    bench = Bench("toy")
    cold = bench.one(0, 0, kind=ATOMIC, sectors=1, asked=4, ops=1)
    assert cold > bench.one(1000, 0, kind=ATOMIC, sectors=1, asked=4, ops=1)
    assert bench.count(Mem.DRAM_READ) == 1


def waits_beside_stores(storing: range, loading: int) -> list[int]:
    """Cycles that loads by TMA take of lines in L2, while SMs store rows of 16 bytes as fast as they can."""
    profile = load_profile("h200")
    memory = MemorySystem(profile)
    q = requests(profile.gpu.sm_count, 33)
    waits, asked = [], 0
    for step in range(400):
        now, q.n[:] = 1000 + STEP * step, 0
        for sm in storing:
            q.n[sm] = 32 if q.free[sm] < now + STEP else 0
            q.kind[sm, :32], q.sectors[sm, :32], q.asked[sm, :32], q.unit[sm, :32] = STORE, 0b0001_0001, 16, 0
            q.time[sm, :32] = now + 2 * np.arange(32)
            warp, row = np.divmod(np.arange(32), 8)
            q.line[sm, :32] = BASE + (sm * 4 + warp) * 512 + row * 32 + step // 8 % 32
        k = q.n[loading]
        q.time[loading, k], q.line[loading, k] = now, BASE + 300_000 + step % 97
        q.kind[loading, k], q.sectors[loading, k], q.asked[loading, k], q.unit[loading, k] = LOAD, WHOLE, 128, 1
        q.n[loading] = k + 1
        asked = asked or now
        memory.weave(q, now, now + STEP)
        last = q.n[loading] - 1
        if last >= 0 and q.unit[loading, last] == 1:  # else it stays in the SM for another step
            if step >= 200:
                waits.append(int(q.done[loading, last]) - asked)
            asked = 0
    return waits


def test_a_load_by_tma_waits_for_stores_of_its_own_sm_only() -> None:
    """853 cycles on the card beside stores of all SMs, 388 alone, 400 to 427 on 16 SMs beside stores of all others."""
    alone = {sm: np.mean(waits_beside_stores(range(0), sm)) for sm in (5, 100)}
    assert np.mean(waits_beside_stores(range(132), 100)) - alone[100] == pytest.approx(853 - 388, rel=0.35)
    assert 0 <= np.mean(waits_beside_stores(range(16, 132), 5)) - alone[5] < 40


def test_lines_of_a_box_come_back_at_different_times_beside_stores() -> None:
    """What waits differs from slice to slice: on the card 64 lines take 1,460 cycles more beside stores, one 465."""
    alone = np.mean(waits_beside_stores(range(0), 100))
    waits = np.array(waits_beside_stores(range(132), 100)) - alone
    assert waits.reshape(-1, 50).max(1).mean() > 2 * waits.mean()
