"""Counts of access streams that a card counted: the H200's `lts__` and `dram__` counters, caches flushed before."""

from __future__ import annotations

import numpy as np
import pytest

from sim._jit import COMPILED
from sim.core.memory_state import ATOMIC, FETCH, LOAD, REDUCTION, STORE
from sim.counters import Mem
from sim.memory_system import MemorySystem, launch_reads
from sim.profile import load_profile
from tests.core.memory_packets import Bench, deal, run, warp_packets

pytestmark = pytest.mark.skipif(not COMPILED, reason="too many packets without a compiler")

N = 1 << 20
THREADS = np.arange(N).reshape(-1, 32)
X, Y = 0, 1

#: What the card reads from memory for itself during a launch: sectors, about.
OVERHEAD = 1500

#: kernel -> element that a thread loads, element that it stores, the card's counts.
KERNELS = {
    "copy1": (
        THREADS,
        THREADS,
        {"L2_READ": 197813, "L2_WRITE": 196534, "L2_TEX": 262144, "L2_TEX_HIT": 131072, "L2_TEX_MISS": 131072,
         "L2_REQUESTS": 65536, "DRAM_READ": 131160, "DRAM_WRITE": 0},
    ),
    "stride_read by 4": (
        THREADS * 4,
        THREADS,
        {"L2_READ": 786301, "L2_WRITE": 194879, "L2_TEX": 655360, "L2_TEX_HIT": 131072, "L2_TEX_MISS": 524288,
         "L2_REQUESTS": 163840, "DRAM_READ": 524368},
    ),
    "stride_read by 12": (
        THREADS * 12,
        THREADS,
        {"L2_READ": 1831807, "L2_WRITE": 196428, "L2_TEX": 1179648, "L2_TEX_HIT": 131072, "L2_TEX_MISS": 1572864,
         "L2_REQUESTS": 425984, "DRAM_READ": 1573016},
    ),
    "stride_read by 32": (
        THREADS * 32,
        THREADS,
        {"L2_READ": 2098205, "L2_WRITE": 197197, "L2_TEX": 1179648, "L2_TEX_HIT": 131072, "L2_TEX_MISS": 2097152,
         "L2_REQUESTS": 1081344, "DRAM_READ": 2097344},
    ),
}  # fmt: skip


def counts_of(load: np.ndarray, store: np.ndarray) -> dict[str, int]:
    """Counts of a kernel whose threads load one element and store another."""
    profile = load_profile("h200")
    memory = MemorySystem(profile)
    stream = deal(profile.gpu.sm_count, warp_packets(load, X, LOAD), warp_packets(store, Y, STORE))
    run(memory, stream, rate=2.0)
    memory.end_launch()
    counts = memory.counts()
    return {m.name: int(counts[m]) for m in Mem}


@pytest.mark.parametrize("kernel", KERNELS)
def test_streams_count_as_on_the_card(kernel: str) -> None:
    load, store, card = KERNELS[kernel]
    counts = counts_of(load, store)
    assert {k: counts[k] for k in card if k.startswith(("L2_TEX", "L2_REQUESTS"))} == {
        k: v for k, v in card.items() if k.startswith(("L2_TEX", "L2_REQUESTS"))
    }
    for name in ("L2_READ", "L2_WRITE", "DRAM_READ"):
        assert counts[name] == pytest.approx(card[name], rel=0.01, abs=OVERHEAD), name


def test_partial_writes_are_filled_and_written_back_as_on_the_card() -> None:
    """stride_write by 8: one word of each sector of 32 MiB. The card keeps about 10 MiB of it unwritten."""
    counts = counts_of(THREADS, THREADS * 8)
    assert counts["L2_WRITE"] == pytest.approx(2310768, rel=0.05)
    assert counts["DRAM_WRITE"] == pytest.approx(726392, rel=0.1)
    assert counts["DRAM_READ"] == pytest.approx(980824, rel=0.15)


def test_half_lines_of_neighbouring_warps_are_one_request() -> None:
    """relu_bf16: the card counts 47684 requests where L1 sends 65536, and no fewer sectors."""
    profile = load_profile("h200")
    memory = MemorySystem(profile)
    accesses = (warp_packets(THREADS, X, LOAD, 2), warp_packets(THREADS, Y, STORE, 2))
    run(memory, deal(profile.gpu.sm_count, *accesses), rate=2.0)
    counts = memory.counts()
    assert counts[Mem.L2_REQUESTS] == pytest.approx(47684, rel=0.05)
    assert counts[Mem.L2_TEX] == 131072


def test_reductions_count_in_both_partitions() -> None:
    """hist with 4096 bins and 264 blocks: 202752 reduction sectors, 1.5 times what the SMs sent."""
    profile = load_profile("h200")
    memory = MemorySystem(profile)
    bins = np.arange(4096).reshape(-1, 32)
    packets = warp_packets(bins, Y, REDUCTION)
    for rows in packets:
        rows[:, 4] = 32
    run(memory, deal(profile.gpu.sm_count, packets * 264, warps=128), rate=2.0)
    assert memory.counts()[Mem.L2_REDUCTION] == pytest.approx(202752, rel=0.01)


def test_every_packet_is_on_the_crossbar() -> None:
    bench = Bench("toy")
    for place, kind in enumerate((LOAD, FETCH, STORE, ATOMIC, REDUCTION)):
        bench.one(1000 * place, place, kind=kind, ops=32)
    assert bench.count(Mem.XBAR_READ) == 3 * 4
    assert bench.count(Mem.XBAR_WRITE) == 3 * 4


def test_fetches_are_not_the_texture_units() -> None:
    bench = Bench("toy")
    bench.one(0, 0, kind=FETCH)
    assert bench.count(Mem.L2_OTHER) == 4
    assert bench.count(Mem.L2_READ) == 4
    assert bench.count(Mem.L2_TEX) == 0


def test_bytes_asked_are_those_that_lanes_wanted_of_what_dram_moved() -> None:
    bench = Bench("toy")
    bench.one(0, 0, sectors=0b0011, asked=8)  # 8 of 64 bytes
    bench.one(1000, 0, sectors=0b0011, asked=8)  # no DRAM
    assert bench.count(Mem.DRAM_BYTES_ASKED) == 8
    assert bench.count(Mem.DRAM_READ) == 2


@pytest.mark.parametrize(
    ("instructions", "l2", "dram"),
    [(76, (1315, 1624), 120), (154, (1719, 1809), 160), (223, (1967, 2139), 192), (2330, (11481, 11842), 1248)],
)  # spin, div_if, occ with 64 live values, div_ways: H200 counters
def test_a_launch_reads_its_code_as_on_the_card(instructions: int, l2: tuple[int, int], dram: int) -> None:
    counts = launch_reads(load_profile("h200"), 16 * instructions, cold=True)
    assert 0.98 * l2[0] <= counts[Mem.L2_READ] <= 1.02 * l2[1]
    assert counts[Mem.L2_READ] == counts[Mem.L2_OTHER]
    assert counts[Mem.DRAM_READ] == pytest.approx(dram, rel=0.02)
    warm = launch_reads(load_profile("h200"), 16 * instructions, cold=False)
    assert warm[Mem.DRAM_READ] == 0 and warm[Mem.L2_READ] == warm[Mem.L2_READ_HIT] == counts[Mem.L2_READ]
    assert not launch_reads(load_profile("toy"), 16 * instructions, cold=True).any()
