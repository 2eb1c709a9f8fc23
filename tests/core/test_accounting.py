"""Every cycle of every warp, every instruction and every block is counted once, whatever the kernel and the GPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import sim
from sim.core.layout import ISSUE_ORDERS
from sim.counters import Inst, LaunchResult, Sm, Stall
from sim.isa import Op, Space
from sim.launch import Launch
from sim.profile import load_profile
from tests.core import functional
from tests.core.launches import Recorded, run, small
from workloads import divergence, matmul, memory, rows, shared

WORKLOADS: dict[str, Callable[[], Launch]] = {
    "copy": lambda: memory.copy(1000, width=4, block=96),
    "gather": lambda: memory.gather(500),
    "transpose": lambda: memory.transpose(40, "tiled"),
    "naive": lambda: matmul.naive(20, coalesced=False),
    "tiled": lambda: matmul.tiled(24, tile=8),
    "gemv": lambda: matmul.gemv(30, "warp"),
    "lane_if": lambda: divergence.lane_if(100, 5, iters=4),
    "trip_counts": lambda: divergence.trip_counts(100, below=20),
    "lecture": lambda: divergence.lecture(64),
    "bank_stride": lambda: shared.bank_stride(8, iters=8, grid=3),
    "reduction": lambda: shared.reduction(1000, "strided"),
    "shuffles": lambda: shared.reduction(1000, "shuffle"),
    "histogram": lambda: shared.histogram(500, 10, grid=4),
    "softmax": lambda: rows.softmax(3, 100, block=64),
}
GPUS = ("toy", "h200", "t4", "rtx_4090", "v100_sxm2")
CASES = [(name, gpu) for name in WORKLOADS for gpu in GPUS if (name, gpu) != ("bank_stride", "toy")]  # it needs 32 KiB


def check_counts(result: LaunchResult) -> None:
    """What must hold of the counts of any launch."""
    reasons = result.stall.sum(axis=0)
    executed = result.inst[:, Inst.EXECUTED].sum()
    assert result.stall.sum() == result.sm[:, Sm.WARPS].sum()
    assert reasons[Stall.SELECTED] == executed == result.sm[:, Sm.ISSUE_ACTIVE].sum()
    assert (result.stall[:, Stall.SELECTED] == result.inst[:, Inst.EXECUTED]).all()
    assert reasons[Stall.NOT_SELECTED] == result.sm[:, Sm.ELIGIBLE].sum() - executed
    assert (result.inst[:, Inst.ISSUED] == result.inst[:, Inst.EXECUTED]).all()
    assert (result.inst[:, Inst.THREADS_ON] <= result.inst[:, Inst.THREADS]).all()
    assert (result.stall >= 0).all() and (result.sm >= 0).all() and (result.mem >= 0).all()
    exits = np.array([i.op is Op.EXIT for i in result.program.instructions])
    assert result.stall[~exits, Stall.DRAIN].sum() == 0
    assert result.inst[exits, Inst.THREADS_ON].sum() == np.prod(result.grid) * np.prod(result.block)


def check_blocks(result: LaunchResult) -> None:
    """Each block ran once, somewhere, in the time of the launch; an SM is active while it holds one."""
    assert len(result.blocks) == np.prod(result.grid)
    sm, start, end = result.blocks.T
    assert (0 < start).all() and (start < end).all() and (end <= result.cycles).all()
    assert (np.bincount(sm, minlength=len(result.sm)) == result.sm[:, Sm.BLOCKS]).all()
    for m in range(len(result.sm)):
        covered, until = 0, 0
        for first, last in sorted(zip(start[sm == m], end[sm == m], strict=True)):
            covered += max(0, last - max(first, until))
            until = max(until, last)
        assert result.sm[m, Sm.ACTIVE] == covered


@pytest.mark.parametrize(("name", "gpu"), CASES)
def test_counts_of_workloads(name, gpu):
    launch = WORKLOADS[name]()
    device = Recorded(small(gpu))
    launch.check(device.launch(launch))
    check_counts(device.result)
    check_blocks(device.result)


def test_counts_of_a_tensor_kernel_with_asynchronous_copies():
    launch = matmul.gemm(n=100, tile=(64, 64, 32), dtype="bf16")
    device = Recorded(small())
    launch.check(device.launch(launch))
    check_counts(device.result)
    check_blocks(device.result)


@pytest.mark.parametrize("scheduler", ISSUE_ORDERS)
def test_any_order_of_issue_counts_the_same_work(scheduler):
    result, _ = run(matmul.tiled(24, tile=8), scheduler=scheduler)
    other, _ = run(matmul.tiled(24, tile=8), scheduler="lrr" if scheduler == "gto" else "gto")
    check_counts(result)
    assert (result.inst == other.inst)[:, : Inst.HIT_SECTORS].all()


@pytest.mark.parametrize("name", ["copy", "tiled", "lane_if", "trip_counts", "reduction", "histogram"])
def test_instructions_are_those_that_a_plain_driver_executes(name, monkeypatch):
    """Counted by instruction, over all warps."""
    launch = WORKLOADS[name]()
    counts = np.zeros(len(launch.program.instructions), np.int64)
    step = functional._step

    def counting(machine, warp, part):
        counts[part.pc] += 1
        step(machine, warp, part)

    monkeypatch.setattr(functional, "_step", counting)
    args = [np.full(a.shape, a.fill, a.dtype) if isinstance(a, sim.OutputArray) else a for a in launch.args]
    functional.run_functional(launch.program, launch.grid, launch.block, args, launch.shared_bytes)
    result, _ = run(launch)
    assert result.inst[:, Inst.EXECUTED].tolist() == counts.tolist()


def test_memory_requests_are_those_of_the_lanes_that_are_on():
    """Half of the second warp and all of the third have no element to copy."""
    result, _ = run(memory.copy(48, block=96))
    requests = {
        i.op: result.inst[k]
        for k, i in enumerate(result.program.instructions)
        if i.space is Space.GLOBAL and i.op in (Op.LD, Op.ST)
    }
    for row in requests.values():
        assert (row[Inst.REQUESTS], row[Inst.SECTORS], row[Inst.BYTES_ASKED]) == (2, 6, 192)


def test_busy_pipes_are_issues_times_their_interval():
    result, _ = run(matmul.tiled(24, tile=8))
    toy = load_profile("toy")
    fma = sum(
        int(row[Inst.EXECUTED]) * getattr(toy.timing, i.cls.name.lower()).interval_cycles
        for row, i in zip(result.inst, result.program.instructions, strict=True)
        if i.cls.name != "LOAD_STORE" and getattr(toy.timing, i.cls.name.lower()).pipe == "fma"
    )
    assert result.sm[:, Sm.PIPE].sum() == fma > 0
