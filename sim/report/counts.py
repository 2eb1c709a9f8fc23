"""The raw counts of a launch, by the names that metric formulas use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sim.counters import Inst, LaunchResult, Mem, Sm, Stall
from sim.isa import Col, Op, Pipe, Space, TimingClass
from sim.occupancy import Occupancy
from sim.profile import Profile
from sim.profile_keys import OpTiming
from sim.report.tail import Tail, Waves, measure_tail

Mask = npt.NDArray[np.bool_]


def _memory(op: Op, *spaces: Space) -> Callable[[npt.NDArray[np.int32], npt.NDArray[np.int32]], Mask]:
    """Instructions of one opcode in some spaces; in any space when none is named."""
    return lambda ops, space: (ops == op) & (np.isin(space, spaces) if spaces else True)


_DEVICE = (Space.GLOBAL, Space.GENERIC)

#: Kinds of memory instruction, as Nsight's memory tables have them. Generic accesses count as global.
MEMORY_KINDS: dict[str, Callable[[npt.NDArray[np.int32], npt.NDArray[np.int32]], Mask]] = {
    "global_ld": _memory(Op.LD, *_DEVICE),
    "global_st": _memory(Op.ST, *_DEVICE),
    "global_atom": _memory(Op.ATOM, *_DEVICE),
    "global_red": _memory(Op.RED, *_DEVICE),
    "ldgsts": _memory(Op.LDGSTS),
    "local_ld": _memory(Op.LD, Space.LOCAL),
    "local_st": _memory(Op.ST, Space.LOCAL),
    "shared_ld": _memory(Op.LD, Space.SHARED),
    "shared_st": _memory(Op.ST, Space.SHARED),
    "shared_atom": lambda op, space: np.isin(op, (Op.ATOM, Op.RED)) & (space == Space.SHARED),
    "ldsm": _memory(Op.LDSM),
    "stsm": _memory(Op.STSM),
}

BRANCHES = (Op.BRA, Op.BRX, Op.CALL, Op.RET)
#: What Nsight counts as branch instructions on cc 9.0: compared with SASS listings, EXIT and BSYNC are among them.
BRANCH_LIKE = (*BRANCHES, Op.EXIT, Op.BSYNC, Op.BREAK, Op.KILL)


class Counts:
    """A `LaunchResult` with the GPU that it ran on, ready for formulas.

    Sums are over the whole launch and all SMs unless the name says otherwise.
    """

    def __init__(self, result: LaunchResult, profile: Profile, occupancy: Occupancy) -> None:
        self.result = result
        self.profile = profile
        self.occupancy = occupancy
        code = result.program.decoded.code
        self.op = code[:, Col.OP]
        self.space = code[:, Col.SPACE]
        self.timing_class = code[:, Col.CLASS]
        self._kinds: dict[str, Mask] = {}

    # -- the launch --------------------------------------------------------------------

    @property
    def elapsed(self) -> int:
        """Cycles from launch to drain."""
        return self.result.cycles

    @property
    def sms(self) -> int:
        """SMs that were simulated."""
        return len(self.result.sm)

    @property
    def subcores(self) -> int:
        """Sub-cores of one SM."""
        return self.profile.core.subcores

    @property
    def elapsed_sm(self) -> int:
        """Elapsed cycles summed over SMs."""
        return self.elapsed * self.sms

    @property
    def elapsed_subcore(self) -> int:
        """Elapsed cycles summed over sub-cores."""
        return self.elapsed_sm * self.subcores

    @property
    def seconds(self) -> float:
        """Elapsed time at the SMs' mean clock."""
        return self.elapsed / self.clock_hz

    @property
    def clock_hz(self) -> float:
        """The SMs' mean clock: the profile's, less what busy tensor cores took."""
        return self.profile.gpu.clock_mhz * 1e6 * self.result.clock_ratio

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        x, y, z = self.result.grid
        return x * y * z

    @property
    def executed_blocks(self) -> int:
        """Blocks that were executed: all, but for a sampled launch."""
        return self.blocks if self.result.sampling is None else self.result.sampling.blocks

    @property
    def block_time_spread(self) -> float:
        """Standard deviation over mean of the executed blocks' times."""
        if self.result.sampling is not None:
            return self.result.sampling.block_time_spread
        times = self.result.blocks[:, 2] - self.result.blocks[:, 1]
        return float(times.std() / times.mean()) if len(times) else 0.0

    @property
    def threads_per_block(self) -> int:
        """Threads of a block."""
        x, y, z = self.result.block
        return x * y * z

    @cached_property
    def waves(self) -> Waves:
        """How many times the grid fills the GPU: `sim/report/tail.py`."""
        fit = self.occupancy
        places = self.profile.gpu.sm_count * max(fit.blocks_per_sm, 1)
        return Waves(self.blocks, fit.active_clusters * fit.blocks_per_cluster or places)

    @cached_property
    def tail(self) -> Tail:
        """What the end of the launch cost: `sim/report/tail.py`."""
        return measure_tail(self.result.blocks, self.sms, self.waves)

    # -- SMs ---------------------------------------------------------------------------

    def sm(self, column: int) -> int:
        """A column of the per-SM counts, summed."""
        return int(self.result.sm[:, column].sum())

    def sm_max(self, column: int) -> int:
        """The largest of a column of the per-SM counts."""
        return int(self.result.sm[:, column].max())

    def sm_min(self, column: int) -> int:
        """The smallest of a column of the per-SM counts."""
        return int(self.result.sm[:, column].min())

    @property
    def active(self) -> int:
        """Cycles with at least one resident warp, summed over SMs."""
        return self.sm(Sm.ACTIVE)

    @property
    def active_subcore(self) -> int:
        """Active cycles summed over sub-cores."""
        return self.active * self.subcores

    @property
    def warp_cycles(self) -> int:
        """Resident warps summed over cycles."""
        return self.sm(Sm.WARPS)

    @property
    def issue_cycles(self) -> int:
        """Sub-core cycles in which a warp issued."""
        return self.sm(Sm.ISSUE_ACTIVE)

    # -- instructions ------------------------------------------------------------------

    def of_kind(self, *kinds: str) -> Mask:
        """Which instructions are of any of these `MEMORY_KINDS`; all when none is named."""
        if not kinds:
            return np.ones(len(self.op), bool)
        for kind in kinds:
            if kind not in self._kinds:
                self._kinds[kind] = MEMORY_KINDS[kind](self.op, self.space)
        return np.logical_or.reduce([self._kinds[kind] for kind in kinds])

    def inst(self, column: Inst, *kinds: str) -> int:
        """A column of the per-instruction counts, summed over instructions of some kinds."""
        return int(self.result.inst[self.of_kind(*kinds), column].sum())

    def op_inst(self, column: Inst, *ops: Op) -> int:
        """A column of the per-instruction counts, summed over some opcodes."""
        return int(self.result.inst[np.isin(self.op, ops), column].sum())

    @property
    def executed(self) -> int:
        """Warp instructions executed."""
        return self.inst(Inst.EXECUTED)

    @property
    def issued(self) -> int:
        """Warp instructions issued, replays among them."""
        return self.inst(Inst.ISSUED)

    def excess_wavefronts(self, *kinds: str) -> int:
        """Wavefronts beyond what the access widths need: bank conflicts, for shared memory."""
        return self.inst(Inst.WAVEFRONTS, *kinds) - self.inst(Inst.IDEAL_WAVEFRONTS, *kinds)

    @cached_property
    def ideal_sectors_each(self) -> npt.NDArray[np.int64]:
        """By instruction: sectors that dense accesses for the same bytes would take, at least one a request."""
        inst = self.result.inst
        dense = -(-inst[:, Inst.BYTES_ASKED] // self.sector_bytes)
        return np.minimum(np.maximum(dense, inst[:, Inst.REQUESTS]), inst[:, Inst.SECTORS])

    def ideal_sectors(self, *kinds: str) -> int:
        """Sectors that dense accesses for the same bytes would take, at least one a request."""
        return int(self.ideal_sectors_each[self.of_kind(*kinds)].sum())

    def stall(self, *reasons: Stall) -> int:
        """Warp-cycles spent in some stall reasons."""
        return int(self.result.stall[:, list(reasons)].sum())

    # -- pipes -------------------------------------------------------------------------

    def timing(self, cls: TimingClass) -> OpTiming | None:
        """The profile's timing of a class; none for the memory pipeline's own."""
        return None if cls is TimingClass.LOAD_STORE else getattr(self.profile.timing, cls.name.lower())

    def pipe_busy(self, *pipes: Pipe) -> int:
        """Sub-core cycles in which pipes were busy."""
        return sum(self.sm(Sm.PIPE + pipe) for pipe in pipes)

    @cached_property
    def fma_pipes(self) -> tuple[Pipe, ...]:
        """The FMA pipes that this GPU's instructions use: one, or a heavy and a lite half."""
        used = {name for t in map(self.timing, TimingClass) if t for name in (t.pipe, t.alternate_pipe)}
        return tuple(p for p in (Pipe.FMA, Pipe.FMAHEAVY) if p.name.lower() in used)

    @cached_property
    def pipe_executed(self) -> dict[Pipe, int]:
        """Warp instructions by pipe.

        Instructions of a class that two pipes take are divided as the pipes' busy
        cycles beyond their other work are; exact with one such class.
        """
        totals = dict.fromkeys(Pipe, 0)
        spare = {pipe: float(self.pipe_busy(pipe)) for pipe in Pipe}
        shared: list[tuple[int, Pipe, Pipe]] = []
        for cls in TimingClass:
            count = int(self.result.inst[self.timing_class == cls, Inst.EXECUTED].sum())
            timing = self.timing(cls)
            if timing is None:
                totals[Pipe.LSU] += count
            elif timing.alternate_pipe is None:
                pipe = Pipe[timing.pipe.upper()]
                totals[pipe] += count
                spare[pipe] -= count * timing.interval_cycles
            elif count:
                shared.append((count, Pipe[timing.pipe.upper()], Pipe[timing.alternate_pipe.upper()]))
        for count, first, second in shared:
            a, b = max(spare[first], 0.0), max(spare[second], 0.0)
            to_second = round(count * b / (a + b)) if a + b else 0
            totals[first] += count - to_second
            totals[second] += to_second
        return totals

    def pipe_demand(self, pipe: Pipe) -> float:
        """Sub-core cycles that a pipe's instructions need at its issue interval."""
        if pipe is not Pipe.LSU:
            return float(self.pipe_busy(pipe))
        need = 0.0
        for cls in TimingClass:
            timing = self.timing(cls)
            if timing is None or timing.pipe == "lsu":
                interval = timing.interval_cycles if timing else self.profile.lsu.address_interval_cycles
                need += interval * int(self.result.inst[self.timing_class == cls, Inst.EXECUTED].sum())
        return need

    # -- memory system -----------------------------------------------------------------

    @property
    def sector_bytes(self) -> int:
        """Bytes of a sector."""
        return self.profile.l1.sector_bytes

    def mem(self, *columns: Mem) -> int:
        """Columns of the memory system's counts, summed."""
        return sum(int(self.result.mem[column]) for column in columns)

    @property
    def l2_sectors(self) -> int:
        """Sectors looked up in L2 by reads, writes, atomics and reductions."""
        return self.mem(Mem.L2_READ, Mem.L2_WRITE, Mem.L2_ATOMIC, Mem.L2_REDUCTION)

    @property
    def dram_bytes(self) -> int:
        """Bytes that moved between L2 and DRAM: whole bursts."""
        return self.burst_bytes(Mem.DRAM_READ_BURSTS, Mem.DRAM_WRITE_BURSTS)

    def burst_bytes(self, *columns: Mem) -> int:
        """Bytes of the bursts that columns of the memory system's counts hold."""
        return self.mem(*columns) * self.profile.dram.burst_bytes

    @property
    def dram_bytes_per_cycle(self) -> float:
        """Bytes that DRAM could move in an SM cycle."""
        return self.profile.dram.peak_gbytes_per_s * 1e3 / self.profile.gpu.clock_mhz

    @property
    def dram_busy(self) -> npt.NDArray[np.int64]:
        """Cycles with data on each channel's bus."""
        return self.result.dram_channel_busy
