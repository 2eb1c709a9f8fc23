"""What a load waits for, by a pointer chase of one thread, against what an H200 was measured to take.

The card's figures (microbench_1 `chase`, microbench_2 `dram_chase`) include the two
instructions that make the next address.
"""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.counters import Inst, Mem
from sim.device import Device
from sim.isa import Op, Space
from sim.profile import Profile, load_profile
from tests.core.launches import Recorded, run, small
from tests.core.test_sm import waited

KIB = 1024
CARVE_OUT = 200 * KIB  #: dynamic shared memory that leaves an L1 of 20 KiB
SETS_OF_L2 = 96 * 16 * 128  #: bytes of one set in each of an H200's slices


@sim.kernel
def chase(k, p, steps, out):
    j = k.var(0, np.int64)
    for _ in k.range_(steps, unroll=1):
        j.set(p[j])
    out[0] = j


def ring(nbytes: int, stride: int = 128) -> np.ndarray:
    """Indices that lead through all `stride`-byte pieces of `nbytes` bytes, in random order, and back."""
    order = np.random.default_rng(1).permutation(nbytes // stride) * (stride // 8)
    pieces = np.zeros(nbytes // 8, np.int64)
    pieces[order] = np.roll(order, -1)
    return pieces


class Chase:
    """A ring on a device, and how many cycles a step through it takes."""

    def __init__(self, nbytes: int, stride: int = 128, gpu: Profile | None = None, shared_bytes: int = 0) -> None:
        self.device = Recorded(gpu or small())
        self.ring, self.pieces = self.device.array(ring(nbytes, stride)), nbytes // stride
        self.shared_bytes = shared_bytes

    def cycles(self, steps: int, cold: bool = False) -> int:
        out = np.zeros(1, np.int64)
        launch = chase.launch(1, 1, args=(self.ring, steps, out), shared_bytes=self.shared_bytes)
        return self.device.launch(launch, flush=cold).cycles

    def step(self, after: int, steps: int, cold: bool = False) -> float:
        """Cycles a step, of `steps` steps after `after` steps."""
        return (self.cycles(after + steps, cold) - self.cycles(after, cold)) / steps


@pytest.mark.parametrize("kib", [4, 64, 192])
def test_l1_answers_in_42_cycles(kib):
    chase = Chase(kib * KIB)
    chase.cycles(chase.pieces)  # now in L2
    assert chase.step(chase.pieces, min(chase.pieces, 300)) == pytest.approx(41.8, abs=1.5)


@pytest.mark.parametrize(("kib", "card"), [(192, 41.82), (224, 76.84), (256, 212.5), (384, 289.62)])
def test_what_l1_cannot_hold_is_lost_bit_by_bit(kib, card):
    chase = Chase(kib * KIB)
    chase.cycles(chase.pieces)
    assert chase.step(chase.pieces, chase.pieces) == pytest.approx(card, rel=0.1)


@pytest.mark.parametrize(("kib", "hits"), [(16, True), (64, False)])
def test_shared_memory_takes_its_part_of_l1(kib, hits):
    chase = Chase(kib * KIB, shared_bytes=CARVE_OUT)
    chase.cycles(chase.pieces)
    assert (chase.step(chase.pieces, 200) < 60) == hits


def test_l2_answers_in_289_cycles_up_to_half_its_size():
    chase = Chase(128 * KIB, gpu=small(l2__bytes=4 * SETS_OF_L2), shared_bytes=CARVE_OUT)
    chase.cycles(chase.pieces)
    nearer = load_profile("h200").l2.sm_distance_cycles[0]  # that SM than others
    assert chase.step(0, 500) == pytest.approx(289.5 + nearer, rel=0.01)


def test_l2_answers_in_409_to_429_cycles_beyond_half_its_size():
    """Half of the lines then lie in the far partition."""
    chase = Chase(512 * KIB, gpu=small(l2__bytes=4 * SETS_OF_L2), shared_bytes=CARVE_OUT)
    chase.cycles(chase.pieces)
    assert chase.step(0, 2000) == pytest.approx(419, rel=0.06)


def test_dram_answers_in_664_to_676_cycles():
    assert Chase(4096 * KIB, stride=4096).step(100, 800, cold=True) == pytest.approx(670, rel=0.025)


def test_caches_are_warm_for_the_next_kernel_and_cold_after_a_flush():
    chase = Chase(16 * KIB)
    first = chase.cycles(100)
    assert chase.device.result.mem[Mem.DRAM_READ] > 0
    second = chase.cycles(100)
    assert chase.device.result.mem[Mem.DRAM_READ] == 0
    assert first - second > 100 * 300
    chase.device.flush()
    assert chase.cycles(100) == pytest.approx(first, rel=0.05)


def test_l1_is_empty_at_the_start_of_a_kernel():
    chase = Chase(4 * KIB)
    chase.cycles(64)
    chase.cycles(32)
    loads = [k for k, i in enumerate(chase.device.result.program.instructions) if i.text.startswith("LDG")]
    assert chase.device.result.inst[loads, Inst.HIT_SECTORS].sum() == 0


@pytest.mark.parametrize(("width", "extra"), [(1, 0), (2, 2), (4, 6)])
def test_wide_loads_take_longer(width, extra):
    """All lanes at one place; the second load finds the line in L1."""

    @sim.kernel
    def twice(k, x, y, zero, *, width):
        a = x.load(zero, width=width)
        first = a if width == 1 else a[0]
        b = x.load(first.astype(np.int32) + zero, width=width)
        y[k.thread_idx.x] = b if width == 1 else b[0]

    launch = twice.launch(1, 32, args=(np.zeros(4, np.float32), sim.zeros(32), 0), constants={"width": width})
    result, _ = run(launch, gpu=small())
    text = "STG"
    store = next(k for k, i in enumerate(result.program.instructions) if i.text.startswith(text))
    hit = small().lsu.global_hit_latency_cycles
    assert waited(result, store)["LONG_SCOREBOARD"] == pytest.approx(hit + extra - 1, abs=2)


def test_a_second_load_of_a_line_under_way_waits_for_the_same_packet():
    @sim.kernel
    def both(k, x, y):
        i = k.thread_idx.x
        y[i] = x[i] + x[i ^ 1]

    device = Device(small())
    report = device.launch(both.launch(1, 32, args=(np.ones(32, np.float32), sim.zeros(32))))
    assert (report.outputs["y"] == 2).all()
    launch = both.launch(1, 32, args=(np.ones(32, np.float32), sim.zeros(32)))
    result, _ = run(launch, gpu=small())
    loads = [k for k, i in enumerate(result.program.instructions) if i.op is Op.LD and i.space is Space.GLOBAL]
    assert result.inst[loads, Inst.SECTORS].sum() == 8
    assert result.inst[loads, Inst.HIT_SECTORS].sum() == 4
    assert result.mem[Mem.XBAR_READ] == 4
