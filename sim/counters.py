"""What a launch leaves behind: raw counts, and the enums that name their columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.program import Program

if TYPE_CHECKING:
    from sim.timeline import Timeline


class Inst(IntEnum):
    """Columns of the per-instruction counts `inst[instructions, len(Inst)]`."""

    EXECUTED = 0  # warp instructions
    ISSUED = 1  # EXECUTED plus replays
    THREADS = 2  # active threads
    THREADS_ON = 3  # active threads whose guard is true
    REQUESTS = 4  # memory: warp requests that reached the L1/shared stage
    SECTORS = 5  # memory: 32-byte sectors of global and local requests
    LINES = 6  # memory: tag look-ups (128-byte lines)
    HIT_SECTORS = 7
    WAVEFRONTS = 8  # passes through the L1/shared data stage
    IDEAL_WAVEFRONTS = 9  # what the widths alone would need
    BYTES_ASKED = 10  # distinct bytes that the lanes asked for
    BRANCHES_DIVERGENT = 11


class Stall(IntEnum):
    """Where a resident warp's cycle went: Nsight's stall reasons."""

    SELECTED = 0
    NOT_SELECTED = 1
    WAIT = 2
    LONG_SCOREBOARD = 3
    SHORT_SCOREBOARD = 4
    MATH_PIPE_THROTTLE = 5
    MIO_THROTTLE = 6
    LG_THROTTLE = 7
    TEX_THROTTLE = 8
    DISPATCH_STALL = 9
    NO_INSTRUCTION = 10
    IMC_MISS = 11
    BRANCH_RESOLVING = 12
    BARRIER = 13
    MEMBAR = 14
    GMMA = 15
    SLEEPING = 16
    DRAIN = 17
    MISC = 18


class Track(IntEnum):
    """What a recorded interval of time belongs to."""

    WARP = 0  # a resident warp: its cycles by stall reason, without gaps
    LOAD = 1  # a load that waits for L2, from its issue until its data is there
    COPY = 2  # an asynchronous copy to shared memory, likewise
    TMA = 3  # a copy by the tensor memory accelerator, until its last byte is there
    TENSOR = 4  # a warp's part of a warpgroup product: its time in the tensor pipe


class Sm(IntEnum):
    """Columns of the per-SM counts `sm[sms, len(Sm)]`. Cycles unless said otherwise."""

    ACTIVE = 0  # with at least one resident warp
    WARPS = 1  # warp-cycles: resident warps summed over cycles
    ISSUE_ACTIVE = 2  # sub-core cycles in which a warp issued
    ELIGIBLE = 3  # eligible warps summed over sub-core cycles
    BLOCKS = 4  # blocks that ran here
    L1_DATA = 5  # L1/shared data stage busy
    L1_TAG = 6  # tag stage busy
    PIPE = 7  # first of len(Pipe) columns: sub-core cycles in which a pipe was busy


SM_COLUMNS = Sm.PIPE + 11


class Mem(IntEnum):
    """The memory system's counts, one row for the device: `mem[len(Mem)]`. Sectors unless said otherwise."""

    XBAR_READ = 0  # L2 to SMs
    XBAR_WRITE = 1  # SMs to L2
    L2_REQUESTS = 2  # requests from L1 (lines)
    L2_READ = 3  # look-ups, a sector that crosses partitions counted in both
    L2_READ_HIT = 4
    L2_WRITE = 5
    L2_WRITE_HIT = 6
    L2_ATOMIC = 7
    L2_REDUCTION = 8
    L2_TEX = 9  # as the SMs asked, each once
    L2_TEX_HIT = 10
    L2_TEX_MISS = 11
    L2_OTHER = 12  # instruction and constant fetches
    L2_CROSSED = 13  # went to the other partition
    L2_EVICTED_DIRTY = 14
    L2_CYCLES_BUSY = 15  # slice-cycles
    DRAM_READ = 16
    DRAM_WRITE = 17
    DRAM_READ_BURSTS = 18
    DRAM_WRITE_BURSTS = 19
    DRAM_ROW_HIT = 20  # bursts
    DRAM_ROW_MISS = 21  # bank was idle
    DRAM_ROW_CONFLICT = 22  # another row was open
    DRAM_TURNAROUNDS = 23
    DRAM_REFRESHES = 24
    DRAM_CYCLES_BUSY = 25  # channel-cycles (SM clock) with data on the bus
    DRAM_BYTES_ASKED = 26  # bytes of DRAM reads and writes that a thread asked for


@dataclass(frozen=True)
class Sampling:
    """What of a sampled launch was executed, and how equal its blocks were."""

    blocks: int  #: executed
    block_time_spread: float  #: standard deviation over mean, of the executed blocks' times


@dataclass(frozen=True)
class LaunchResult:
    """Everything counted in one launch; a Report is made of it and needs no SM."""

    program: Program
    gpu: str  #: profile name
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_dynamic_bytes: int
    cycles: int  #: sm__cycles_elapsed.max: launch to drain
    launch_cycles: int  #: part of `cycles`: before the first block, and the drain after the last
    inst: npt.NDArray[np.int64]
    stall: npt.NDArray[np.int64]  #: `[instructions, len(Stall)]` warp-cycles, at the instruction that waits
    sm: npt.NDArray[np.int64]
    mem: npt.NDArray[np.int64]
    dram_channel_busy: npt.NDArray[np.int64]  #: `[channels]` SM cycles
    blocks: npt.NDArray[np.int64]  #: `[blocks, 3]`: SM, first cycle, last cycle + 1
    scheduler: str = "gto"
    clock_ratio: float = 1.0  #: the SMs' mean clock, of the profile's
    notes: tuple[str, ...] = field(default=())  #: what a reader must know: sampled, racing stores, ...
    sampling: Sampling | None = None  #: None: every block was executed
    timeline: Timeline | None = None  #: of the SMs that were recorded over time
