"""Sampled launches: once the work goes at a steady rate, most blocks are taken out of the queue, not executed.

docs/model/sampling.md says the rule and its limits. In short: when a wave of blocks has
ended and the rate of instructions has been the same for a while, all blocks but the last
ones are skipped. Their counts and their time are those of the rates before and after; the
blocks in flight and the last ones of the grid are really run. All of it depends on
simulated state alone, so equal inputs give equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sim.core import layout
from sim.counters import Inst, LaunchResult, Mem, Sampling, Sm, Stall
from sim.engine import Engine
from sim.isa import FLAG_STRONG, Col, Op, Space

Int64s = npt.NDArray[np.int64]

AUTO_INSTRUCTIONS = 50_000_000  #: warp instructions from which on `detail="auto"` samples
DETAILS = ("auto", "full", "sampled")
TOLERANCE = 0.03  #: rates that differ by less are steady; what counts is measured again after the jump
FEWEST_SKIPPED = 2  #: waves; fewer are not worth it
LONG = 30  #: waves from which on a launch is watched for longer, before and after the jump
EQUAL_WORK = 0.05  #: share by which the work of blocks before and after may differ and count as equal
STEPS = 8  #: time steps between two snapshots, at first
SNAPSHOTS = 64  #: that are kept; then every other one is dropped
BUSY_DRAM = 0.2  #: share of its peak from which on DRAM, and so what L2 holds, decides the rate
#: Counts of `Mem` that are of what SMs asked for; of writes; and parts with their wholes.
ASKED = (Mem.XBAR_READ, Mem.XBAR_WRITE, Mem.L2_REQUESTS, Mem.L2_READ, Mem.L2_WRITE, Mem.L2_ATOMIC, Mem.L2_REDUCTION,
         Mem.L2_TEX)  # fmt: skip
WRITES = (Mem.L2_WRITE_HIT, Mem.L2_EVICTED_DIRTY, Mem.DRAM_WRITE, Mem.DRAM_WRITE_BURSTS)
PART_OF = {Mem.L2_READ_HIT: Mem.L2_READ, Mem.L2_WRITE_HIT: Mem.L2_WRITE, Mem.L2_TEX_HIT: Mem.L2_TEX}


@dataclass(frozen=True)
class Snapshot:
    """All counts at a step's end, as if nothing were pending."""

    time: int  #: of the core's clock
    ended: int  #: blocks
    inst: Int64s
    stall: Int64s
    sm: Int64s
    mem: Int64s
    channel_busy: Int64s
    lines: int  #: in L2

    @property
    def executed(self) -> int:
        return int(self.inst[:, Inst.EXECUTED].sum())


@dataclass(frozen=True)
class Window:
    """What happened between two snapshots."""

    first: Snapshot
    last: Snapshot

    @property
    def blocks(self) -> int:
        return self.last.ended - self.first.ended

    @property
    def cycles(self) -> int:
        return self.last.time - self.first.time

    @property
    def executed(self) -> int:
        return self.last.executed - self.first.executed

    @property
    def cycles_an_instruction(self) -> float:
        return self.cycles / max(self.executed, 1)

    @property
    def instructions_a_block(self) -> float:
        return self.executed / max(self.blocks, 1)


@dataclass(frozen=True)
class Part:
    """Skipped blocks whose counts and time are those of a window: `instructions` of its `window.executed`."""

    window: Window
    instructions: int

    def scaled(self, name: str) -> Int64s:
        counts = getattr(self.window.last, name) - getattr(self.window.first, name)
        return _scale(counts, self.instructions, max(self.window.executed, 1))

    @property
    def cycles(self) -> int:
        return round(self.instructions * self.window.cycles_an_instruction)


@dataclass
class Sampler:
    """Watches a launch and takes blocks out of its queue, once; then completes the launch's counts."""

    engine: Engine
    detail: str
    watching: bool = True
    skipped: int = 0  #: blocks
    why_not: str = ""  #: nothing was skipped, because
    _first: int = 0  #: of the skipped blocks
    _unchanged: int = 0  #: of the skipped blocks: those before L2 has filled to where it behaves otherwise
    _before: Window | None = None
    _after: Window | None = None
    _settle: int = 0  #: blocks that must have ended
    _settled: Snapshot | None = None  #: where the window after the jump begins
    _snapshots: list[Snapshot] = field(default_factory=list)
    _due: int = 0  #: steps until the next snapshot
    _spacing: int = STEPS
    _ends: list[tuple[int, int]] = field(default_factory=list)  #: (time, blocks ended) by step

    def __post_init__(self) -> None:
        self.wave = len(self.engine.arrays) * int(self.engine.dispatch.state[layout.D_SLOTS])
        self.waves = self.engine.launch.blocks / self.wave
        if self.waves < FEWEST_SKIPPED + 2:
            self._stop(f"the grid has {self.waves:.1f} waves of blocks, too few")
        elif self._blocks_talk():
            self._stop("its blocks can see each other's atomics or strong loads")

    def _stop(self, why: str) -> None:
        self.watching, self.why_not = False, why

    def let_go(self) -> None:
        """Forget the launch, whose arrays are most of a process's memory, but not why nothing was skipped."""
        del self.engine
        self._before = self._after = self._settled = None
        self._snapshots.clear()

    def _blocks_talk(self) -> bool:
        """Whether a block may wait for another, or count it: then none can be left out."""
        code = self.engine.launch.program.decoded.code
        op, away = code[:, Col.OP], ~np.isin(code[:, Col.SPACE], (Space.SHARED, Space.LOCAL, Space.CONSTANT))
        strong = (op == Op.LD) & ((code[:, Col.FLAGS] & FLAG_STRONG) != 0)
        return bool((away & ((op == Op.ATOM) | strong)).any())

    # -- while it runs -----------------------------------------------------------------

    def after_step(self, now: int) -> None:
        """Look at the launch at a step's end."""
        if not self.watching:
            return
        state = self.engine.dispatch.state
        ended = int(state[layout.D_ENDED]) - self.skipped
        out = state[layout.D_NEXT] == state[layout.D_BLOCKS]
        if self._before is not None:
            self._look_after(now, ended, bool(out))
        elif out:
            self._stop("no steady rate was seen before the last blocks had started")
        else:
            self._ends.append((now, ended))
            self._due -= 1
            if self._due <= 0:
                self._due = self._spacing
                self._look_before(now)

    def _look_before(self, now: int) -> None:
        """Take a snapshot; jump if the rate is steady."""
        self._snapshots.append(self._snapshot(now))
        if len(self._snapshots) > SNAPSHOTS:
            del self._snapshots[1::2]
            self._spacing *= 2
        last = self._snapshots[-1]
        if last.ended < self.wave:
            return
        length = self._wave_cycles(last) * max(1.0, min(2.0, self.waves / 100))
        middle = self._before_time(last.time - length)
        first = self._before_time(middle.time - length) if middle else None
        if middle is None or first is None:
            return
        earlier, window = Window(first, middle), Window(middle, last)
        if not _agree(earlier.cycles_an_instruction, window.cycles_an_instruction):
            return
        if self.detail == "auto" and last.executed / last.ended * self.engine.launch.blocks < AUTO_INSTRUCTIONS:
            return
        self._jump(Window(first, last) if self.waves >= LONG else window)

    def _wave_cycles(self, last: Snapshot) -> int:
        """The time in which the last wave of blocks ended."""
        for time, ended in reversed(self._ends):
            if last.ended - ended >= self.wave:
                return last.time - time
        return last.time - self._ends[0][0]

    def _before_time(self, time: float) -> Snapshot | None:
        """The latest snapshot of that time or earlier."""
        return next((snapshot for snapshot in reversed(self._snapshots) if snapshot.time <= time), None)

    def _jump(self, window: Window) -> None:
        """Skip all blocks but those in flight and the last ones."""
        state = self.engine.dispatch.state
        kept = 1 + int(self.waves) // LONG
        left = int(state[layout.D_BLOCKS] - state[layout.D_NEXT])
        waves = left // self.wave - kept
        if waves < FEWEST_SKIPPED:
            self._stop("a steady rate was seen too late")
            return
        self.skipped = waves * self.wave
        self._first, self._before = int(state[layout.D_NEXT]), window
        per_block = window.last.executed / window.last.ended
        growth = (window.last.lines - window.first.lines) / max(window.executed, 1) * per_block
        busy = (window.last.channel_busy - window.first.channel_busy).sum()
        if growth > 0 and busy >= BUSY_DRAM * len(window.last.channel_busy) * window.cycles:
            self._unchanged = min(self.skipped, self._until_change(window, growth))
            self.engine.memory.age(round(growth * self.skipped))
        state[layout.D_NEXT] += self.skipped
        state[layout.D_ENDED] += self.skipped
        self._settle = window.last.ended + (self.wave if self.waves >= LONG else 0)
        self._snapshots.clear()

    def _until_change(self, window: Window, growth: float) -> int:
        """Blocks until L2 is as full as changes its behaviour; 0: it does not change any more."""
        room = [full - window.last.lines for full in self.engine.memory.changes if full > window.last.lines]
        return int(room[0] / growth) if room else 0

    def _look_after(self, now: int, ended: int, out: bool) -> None:
        """The window after the jump: whole waves, from when all is as it was, while there are blocks to start."""
        if self._settled is None:
            if ended >= self._settle:
                self._settled, self._settle = self._snapshot(now), ended + self.wave
        elif ended >= self._settle:
            self._after = Window(self._settled, self._snapshot(now))
            self._settle += self.wave
        self.watching = not out

    def _snapshot(self, now: int) -> Snapshot:
        engine, cfg = self.engine, self.engine.shared.cfg
        stall, per_sm = engine.shared.stall.sum(axis=0), np.array(engine.arrays.sm)
        warps = engine.arrays.ws
        sm, warp = np.nonzero(warps[:, :, layout.W_STATE] != layout.W_EMPTY)
        since = warps[sm, warp, layout.W_SINCE]
        why = engine.arrays.why[sm, warp % cfg[layout.C_SUBCORES], warp // cfg[layout.C_SUBCORES]]
        np.add.at(stall, (warps[sm, warp, layout.W_PC], why), np.maximum(now - since, 0))
        np.add.at(per_sm[:, Sm.WARPS], sm, np.maximum(since, now))
        return Snapshot(
            time=now,
            ended=int(engine.dispatch.state[layout.D_ENDED]) - self.skipped,
            inst=engine.shared.inst.sum(axis=0),
            stall=stall,
            sm=per_sm,
            mem=engine.memory.counts(),
            channel_busy=engine.memory.channel_busy(),
            lines=engine.memory.lines,
        )

    # -- when it has ended -------------------------------------------------------------

    @property
    def executed(self) -> int:
        """Blocks that were executed."""
        return self.engine.launch.blocks - self.skipped

    @property
    def cycles(self) -> int:
        """Time of the skipped blocks."""
        return sum(part.cycles for part in self._parts())

    def _parts(self) -> Sequence[Part]:
        """The skipped blocks by the windows that stand for them."""
        before, after = self._before, self._after
        if before is None:
            return ()
        mean = self._executed_instructions() / max(self._ended, 1)
        if after is None or after.executed < self.wave * mean / 4:
            return (self._part(before, self.skipped, mean),)
        if not self._equal_work():
            half = self.skipped // 2
            return (self._part(before, half, 0), self._part(after, self.skipped - half, 0))
        changed = self.skipped - self._unchanged
        return (self._part(before, self._unchanged, mean), self._part(after, changed, mean))

    @property
    def _ended(self) -> int:
        return int(self.engine.dispatch.state[layout.D_ENDED]) - self.skipped

    def _executed_instructions(self) -> int:
        return int(self.engine.shared.inst[:, :, Inst.EXECUTED].sum())

    def _equal_work(self) -> bool:
        """Whether blocks before and after the jump do equal work, as far as the counts at the jump can tell.

        Then what had been executed by then is the mean block's work for each block that
        had ended, and some of it for each of the wave in flight.
        """
        assert self._before is not None
        jumped = self._before.last
        mean = self._executed_instructions() / max(self._ended, 1)
        in_flight = jumped.executed / mean - jumped.ended
        slack = EQUAL_WORK * jumped.ended
        return -slack <= in_flight <= self.wave + slack

    def _part(self, window: Window, blocks: int, instructions: float) -> Part:
        """Blocks of so many instructions; 0: of as many as those that ended in the window."""
        return Part(window, round(blocks * (instructions or window.instructions_a_block)))

    def complete(self, result: LaunchResult) -> LaunchResult:
        """A result of the executed blocks as one of all blocks. Pipe and stage times are ticks on both sides."""
        if not self.skipped:
            return result
        parts = self._parts()
        stall, blocks = _sum(parts, "stall"), self._blocks(result.blocks)
        inst = self._inst(result, parts)
        stall[:, Stall.SELECTED] = inst[:, Inst.EXECUTED]
        return replace(
            result,
            inst=result.inst + inst,
            stall=result.stall + stall,
            sm=result.sm + self._sm(_sum(parts, "sm"), stall, result.sm[:, Sm.BLOCKS], blocks),
            mem=result.mem + self._mem(result, parts),
            dram_channel_busy=result.dram_channel_busy + _sum(parts, "channel_busy"),
            blocks=blocks,
            sampling=Sampling(self.executed, _spread(result.blocks)),
        )

    def _mem(self, result: LaunchResult, parts: Sequence[Part]) -> Int64s:
        """The memory system's counts: what was asked for as that of the executed blocks, where those do equal work.

        What became of it is that of the windows: of writes in proportion to the sectors
        that were written, of the rest in proportion to those that were read.
        """
        mem = _sum(parts, "mem")
        if self._equal_work():
            asked = _scale(result.mem, self.skipped, self.executed)
            reads, writes = (max(int(mem[way]), 1) for way in (Mem.XBAR_READ, Mem.XBAR_WRITE))
            read, written = int(asked[Mem.XBAR_READ]), int(asked[Mem.XBAR_WRITE])
            by_reads = np.isin(np.arange(len(mem)), WRITES, invert=True) if read else np.zeros(len(mem), bool)
            mem = np.where(by_reads, _scale(mem, read, reads), _scale(mem, written, writes) if written else mem)
            mem[list(ASKED)] = asked[list(ASKED)]
            for part, whole in PART_OF.items():
                mem[part] = min(mem[part], mem[whole])
        bursts = mem[Mem.DRAM_READ_BURSTS] + mem[Mem.DRAM_WRITE_BURSTS]
        mem[Mem.DRAM_ROW_HIT] = max(0, bursts - mem[Mem.DRAM_ROW_MISS] - mem[Mem.DRAM_ROW_CONFLICT])
        mem[Mem.DRAM_CYCLES_BUSY] = _sum(parts, "channel_busy").sum()
        return mem

    def _inst(self, result: LaunchResult, parts: Sequence[Part]) -> Int64s:
        """Counts by instruction: of the mean executed block where blocks do equal work, else of the windows."""
        code = result.program.decoded.code
        in_windows = _sum(parts, "inst")
        inst = _scale(result.inst, self.skipped, self.executed)
        if not self._equal_work():
            inst = in_windows.copy()
        share = in_windows[:, Inst.HIT_SECTORS] / np.maximum(in_windows[:, Inst.SECTORS], 1)
        inst[:, Inst.HIT_SECTORS] = np.rint(inst[:, Inst.SECTORS] * np.minimum(share, 1))
        exits = np.flatnonzero(code[:, Col.OP] == Op.EXIT)
        if len(exits):  # every thread exits once
            missing = self.skipped * self.engine.launch.threads_per_block - int(inst[exits, Inst.THREADS_ON].sum())
            most = exits[np.argmax(inst[exits, Inst.THREADS_ON])]
            inst[most, [Inst.THREADS, Inst.THREADS_ON]] += missing
        return inst

    def _sm(self, sm: Int64s, stall: Int64s, run: Int64s, blocks: Int64s) -> Int64s:
        """Counts by SM, whose sums are those of the instructions."""
        selected, not_selected = (int(stall[:, reason].sum()) for reason in (Stall.SELECTED, Stall.NOT_SELECTED))
        totals = {Sm.WARPS: int(stall.sum()), Sm.ISSUE_ACTIVE: selected, Sm.ELIGIBLE: selected + not_selected}
        for column, total in totals.items():
            sm[:, column] = _apportion(total, sm[:, column])
        sm[:, Sm.BLOCKS] = np.bincount(blocks[:, 0], minlength=len(sm)) - run
        return sm

    def _blocks(self, run: Int64s) -> Int64s:
        """Times of all blocks: those of the last wave before the jump again and again; later ones are moved."""
        assert self._before is not None
        out, end, jumped = run.copy(), run[:, 2], self._before.last.time
        done = np.flatnonzero((end > 0) & (end < jumped))
        wave = done[np.lexsort((done, end[done]))][-self.wave :]
        times = self.skipped // self.wave
        for k in range(times):
            copy = run[wave]
            copy[:, 1:] += self.cycles * (k + 1) // times
            out[self._first + k * self.wave : self._first + (k + 1) * self.wave] = copy
        out[end >= jumped, 1:] += self.cycles
        return out


def _sum(parts: Sequence[Part], name: str) -> Int64s:
    return np.asarray(sum(part.scaled(name) for part in parts))


def _spread(blocks: Int64s) -> float:
    """Standard deviation over mean of the times of the blocks that have ended."""
    times = blocks[blocks[:, 2] > 0]
    spent = times[:, 2] - times[:, 1]
    return float(spent.std() / spent.mean()) if len(spent) else 0.0


def _agree(a: float, b: float, tolerance: float = TOLERANCE) -> bool:
    return abs(a - b) <= tolerance * min(a, b)


def _scale(counts: Int64s, part: int, whole: int) -> Int64s:
    """`counts * part / whole`, rounded."""
    return np.asarray((2 * counts * part + whole) // (2 * whole))


def _apportion(total: int, weights: Int64s) -> Int64s:
    """`total` in whole parts, as the weights are; what rounding leaves goes to the largest remainders."""
    whole = int(weights.sum())
    if whole == 0:
        weights, whole = np.ones_like(weights), len(weights)
    parts = np.array([total * int(w) // whole for w in weights], np.int64)
    rest = np.array([total * int(w) % whole for w in weights])
    parts[np.lexsort((np.arange(len(rest)), -rest))[: total - int(parts.sum())]] += 1
    return parts
