"""Hand-made launches on a GPU of round numbers, so that every expected figure is worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.counters import SM_COLUMNS, Inst, LaunchResult, Mem, Sm, Stall
from sim.isa import Op, Space, TimingClass
from sim.occupancy import occupancy
from sim.profile import Profile, load_profile
from sim.program import Instruction, Program, Reg, SourceLine
from sim.report import Report

SMS = 4
CYCLES = 1000


#: What the GPU of round numbers changes in the H200's profile.
ROUND = {
    "gpu.sm_count": SMS,
    "gpu.gpc_count": 1,
    "gpu.clock_mhz": 1000.0,
    "core.subcores": 4,
    "timing.fp32.pipe": "fmaheavy",
    "timing.fp32.alternate_pipe": "fma",
    "timing.fp32.interval_cycles": 2.0,
    "timing.branch.pipe": "cbu",
    "lsu.address_interval_cycles": 4.0,
    "l2.partitions": 1,
    "l2.slices": 2,
    "l2.slice_bytes_per_cycle": 32.0,
    "l2.sm_read_bytes_per_cycle": 64.0,
    "l2.sm_write_bytes_per_cycle": 32.0,
    "dram.channels": 2,
    "dram.peak_gbytes_per_s": 64.0,
    "launch.blocks_per_cycle": 1.0,
    "launch.fill_blocks_per_cycle": 2.0,
}


def _round_profile() -> Profile:
    """4 SMs of 4 sub-cores at 1 GHz; L2 and DRAM move 64 bytes a cycle; the rest is the H200's."""
    return load_profile("h200").override(ROUND)


def _program(registers: int, shared_bytes: int) -> Program:
    """Seven instructions on three lines: load, store to shared memory, FFMA, shared load, store, branch, exit."""

    def memory(op: Op, text: str, space: Space, line: int) -> Instruction:
        return Instruction(op, TimingClass.LOAD_STORE, text, Reg(2), 1, Reg(4), na=2, space=space, width=4, line=line)

    return Program(
        name="mix",
        instructions=[
            memory(Op.LD, "LDG.E", Space.GLOBAL, 0),
            memory(Op.ST, "STS", Space.SHARED, 0),
            Instruction(Op.FFMA, TimingClass.FP32, "FFMA", Reg(2), 1, Reg(2), Reg(2), Reg(2), 1, 1, 1, line=1),
            memory(Op.LD, "LDS", Space.SHARED, 1),
            memory(Op.ST, "STG.E", Space.GLOBAL, 1),
            Instruction(Op.BRA, TimingClass.BRANCH, "BRA", guard=0, line=2),
            Instruction(Op.EXIT, TimingClass.BRANCH, "EXIT"),
        ],
        registers=registers,
        shared_static_bytes=shared_bytes,
        source=[
            SourceLine("k.py", 10, "tile[i] = x[i]"),
            SourceLine("k.py", 11, "y[i] = tile[j] * a + b"),
            SourceLine("k.py", 12, "with k.if_(i < n):"),
        ],
    )


def _inst() -> np.ndarray:
    """100 warps execute each instruction once; the store is scattered, the shared load conflicts, half diverge."""
    inst = np.zeros((7, len(Inst)), np.int64)
    inst[:, [Inst.EXECUTED, Inst.ISSUED]] = 100
    inst[:, [Inst.THREADS, Inst.THREADS_ON]] = 3200
    inst[6, Inst.THREADS_ON] = 1600
    memory = [Inst.REQUESTS, Inst.SECTORS, Inst.LINES, Inst.HIT_SECTORS, Inst.WAVEFRONTS, Inst.IDEAL_WAVEFRONTS]
    inst[0, [*memory, Inst.BYTES_ASKED]] = (100, 400, 100, 100, 100, 100, 12800)
    inst[1, [*memory, Inst.BYTES_ASKED]] = (100, 0, 0, 0, 100, 100, 12800)
    inst[3, [*memory, Inst.BYTES_ASKED]] = (100, 0, 0, 0, 400, 100, 12800)
    inst[4, [*memory, Inst.BYTES_ASKED]] = (100, 1600, 400, 0, 400, 100, 12800)
    inst[5, Inst.BRANCHES_DIVERGENT] = 50
    return inst


def _stall() -> np.ndarray:
    """20,000 warp-cycles: 700 selected, 300 not selected, the rest at the FFMA and the shared load."""
    stall = np.zeros((7, len(Stall)), np.int64)
    stall[:, Stall.SELECTED] = 100
    stall[6, Stall.NOT_SELECTED] = 300
    stall[2, Stall.LONG_SCOREBOARD] = 15000
    stall[4, Stall.SHORT_SCOREBOARD] = 4000
    return stall


def _sm(sms: int) -> np.ndarray:
    sm = np.zeros((sms, SM_COLUMNS), np.int64)
    sm[:, Sm.ACTIVE] = 800 * SMS // sms
    sm[:, Sm.WARPS] = 20000 // sms
    sm[:, Sm.ISSUE_ACTIVE] = 700 // sms
    sm[:, Sm.ELIGIBLE] = 1000 // sms
    sm[:, Sm.BLOCKS] = 25
    sm[:, Sm.L1_DATA] = 250
    sm[:, Sm.L1_TAG] = 125
    sm[:, Sm.PIPE] = 20  # FMA, lite: 10 instructions of 2 cycles
    sm[:, Sm.PIPE + 1] = 30  # FMA, heavy: 15
    sm[:, Sm.PIPE + 8] = 100
    return sm


def _mem() -> np.ndarray:
    mem = np.zeros(len(Mem), np.int64)
    for column, value in {
        Mem.XBAR_READ: 300, Mem.XBAR_WRITE: 1600, Mem.L2_REQUESTS: 475, Mem.L2_READ: 300, Mem.L2_READ_HIT: 100,
        Mem.L2_WRITE: 1600, Mem.L2_WRITE_HIT: 1600, Mem.L2_TEX: 1900, Mem.L2_TEX_HIT: 1700, Mem.L2_TEX_MISS: 200,
        Mem.L2_CYCLES_BUSY: 1500, Mem.DRAM_READ: 200, Mem.DRAM_WRITE: 100, Mem.DRAM_READ_BURSTS: 200,
        Mem.DRAM_WRITE_BURSTS: 100, Mem.DRAM_ROW_HIT: 240, Mem.DRAM_ROW_MISS: 20, Mem.DRAM_ROW_CONFLICT: 40,
        Mem.DRAM_CYCLES_BUSY: 300, Mem.DRAM_BYTES_ASKED: 7200,
    }.items():  # fmt: skip
        mem[column] = value
    return mem


def _result(**changes: Any) -> LaunchResult:
    """The plain launch - 100 blocks of one warp, 1,000 cycles, 150 of them launch - with some fields changed."""
    registers, shared_bytes = changes.pop("registers", 32), changes.pop("shared_bytes", 1024)
    sms = changes.pop("sms", SMS)
    blocks = np.array([(k % sms, 100, 900) for k in range(100)], np.int64)
    fields: dict[str, Any] = {
        "program": _program(registers, shared_bytes),
        "gpu": "round",
        "grid": (100, 1, 1),
        "block": (32, 1, 1),
        "shared_dynamic_bytes": 0,
        "cycles": CYCLES,
        "launch_cycles": 150,
        "inst": _inst(),
        "stall": _stall(),
        "sm": _sm(sms),
        "mem": _mem(),
        "dram_channel_busy": np.array([100, 200], np.int64),
        "blocks": blocks,
    }
    return LaunchResult(**(fields | changes))


@pytest.fixture(scope="session")
def profile():
    """The GPU of round numbers."""
    return _round_profile()


@pytest.fixture(scope="session")
def make_result():
    """Makes the plain launch's `LaunchResult`, with some fields changed."""
    return _result


@pytest.fixture(scope="session")
def make_report(profile):
    """Makes the report of the plain launch, with some fields changed."""

    def make(**changes: Any) -> Report:
        result = _result(**changes)
        x, y, z = result.block
        fit = occupancy(profile, x * y * z, result.program.registers, result.program.shared_static_bytes)
        return Report(result, profile, fit)

    return make


@pytest.fixture(scope="session")
def report(make_report):
    """The plain launch's report."""
    return make_report()
