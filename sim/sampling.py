"""Sampled launches: a scale model of the GPU, with a few of its SMs and their share of L2, DRAM and blocks.

docs/model/sampling.md says the rule and its limits. In short: the whole GPU runs the
launch's first cycles, which tell what part of the memory that SMs touch a few of them
touch. Then the launch starts again on the scale model. Its time is the launch's; its
counts are scaled. All of it depends on simulated state alone, so equal inputs give
equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sim.core import layout
from sim.core.layout import GLOBAL_BASE
from sim.core.memory_state import LOAD
from sim.counters import Inst, LaunchResult, Mem, Sampling, Sm, Stall
from sim.engine import Engine, fill_turns
from sim.isa import FLAG_STRONG, Col, Op, Space
from sim.memory_system import LINE_BYTES, SECTORS, gpc_of_each_sm
from sim.profile import Profile
from sim.scale_memory import Region

Int64s = npt.NDArray[np.int64]

AUTO_INSTRUCTIONS = 50_000_000  #: warp instructions from which on `detail="auto"` samples
DETAILS = ("auto", "full", "sampled")
TIMES_SMALLER = 16  #: a scale model has about so many times fewer SMs
LEAST_SMALLER = 4  #: a GPU of whose SMs it would be more than a quarter is too small for one
WATCHED_CYCLES = 2500  #: in which it is noted which sectors SMs ask for, at least,
WATCHED_INSTRUCTIONS = 300_000  #: and until the whole GPU has executed so many;
MOST_WATCHED = 400_000  #: instructions after which there is no waiting for the cycles where SMs share no array
LONGEST_WATCHED = 1_200_000  #: instructions up to which is waited for arrays that are first loaded late
#: times their share that they touch at the beginning: with tiles, of which blocks of a row share one, it is twice at
#: least, and they touch all of the array in the end; with halos it is 1.3
WHOLE = 1.75
GOLDEN = (5**0.5 - 1) / 2  #: whose multiples are spread evenly, modulo 1, whatever others they are added to
DIRTY_LINES = 2.0  #: that a set of the model may keep at least: what blocks write meets in few sets, as on the GPU
#: of a DRAM channel, how long its commands and the turns of its bus keep it
DRAM_INTERVALS = ("tccd_long_ns", "trrd_ns", "tfaw_ns", "trcd_ns", "trp_ns", "tras_ns", "twr_ns", "twtr_ns", "trtw_ns")
SHARED = 0.1  #: part of what the model's SMs touch of an array that others touch as well: beyond, SMs share it


def model_sms(profile: Profile) -> int:
    """SMs of the profile's scale model: whole TPCs."""
    tpc = profile.gpu.sms_per_tpc
    return tpc * max(1, round(profile.gpu.sm_count / tpc / TIMES_SMALLER))


def scale_model(profile: Profile, touched: float, meet: float = 1.0) -> Profile:
    """A GPU of `model_sms`, with their share of what SMs share; latencies stay.

    `touched` is the part of a launch's memory that the model's SMs touch, so the part of
    L2's capacity that the model has: the SMs' share where each block has data of its own,
    up to 1 where all blocks read the same. `meet` is how many times as many SMs of a GPC ask for a line as the model
    has: so much longer loads may join, and as many do.
    """
    gpu, l2, dram, launch = profile.gpu, profile.l2, profile.dram, profile.launch
    sms = model_sms(profile)
    share = sms / gpu.sm_count
    slices = l2.partitions * max(1, round(l2.slices * share / l2.partitions))
    channels = l2.partitions * max(1, int(np.ceil(dram.channels * share / l2.partitions)))
    gpcs = 1
    way = l2.line_bytes * l2.associativity * slices
    traffic = profile.launch_traffic
    # Whole channels and slices are more or fewer than the share; each takes as many times longer, or shorter.
    known: dict[str, float | tuple[int, ...]] = {
        f"dram.{name}": getattr(dram, name) * channels / (dram.channels * share) for name in DRAM_INTERVALS
    }
    if l2.sm_distance_cycles is not None:
        known["l2.sm_distance_cycles"] = l2.sm_distance_cycles[sampled_sms(profile)]
    if traffic is not None:
        known["launch_traffic.dirty_bytes"] = round(traffic.dirty_bytes * share)
    if gpu.tpc_cpcs is not None and l2.cpc_write_bytes_per_cycle is not None:  # one CPC with the share of all
        known["gpu.tpc_cpcs"] = (0,) * (-(-sms // gpu.sms_per_tpc))
        known["l2.cpc_write_bytes_per_cycle"] = l2.cpc_write_bytes_per_cycle * len(set(gpu.tpc_cpcs)) * share
    return profile.override(
        {
            "gpu.sm_count": sms,
            "gpu.gpc_count": gpcs,
            "l2.bytes": way * max(1, round(l2.bytes * touched / way)),
            "l2.slices": slices,
            # Blocks write their own, so few of many sets hold any; a set may keep some that chance brings together.
            "l2.dirty_lines": max(DIRTY_LINES, l2.dirty_lines * share / touched),
            "l2.partial_lines": max(1.0, l2.partial_lines * share / touched),
            "l2.clock_mhz": l2.clock_mhz * l2.slices * share / slices,
            "l2.slice_bytes_per_cycle": l2.slice_bytes_per_cycle * l2.slices * share / slices,
            "l2.cross_bytes_per_cycle": l2.cross_bytes_per_cycle * share * l2.partitions,
            "l2.gpc_read_bytes_per_cycle": l2.gpc_read_bytes_per_cycle * gpu.gpc_count * share / gpcs,
            "l2.coalesce_cycles": round(l2.coalesce_cycles * meet),
            "l2.atomic_same_address_cycles": l2.atomic_same_address_cycles / share,
            "dram.channels": channels,
            "dram.peak_gbytes_per_s": dram.peak_gbytes_per_s * share,
            "launch.blocks_per_cycle": launch.blocks_per_cycle * share,
            "launch.fill_blocks_per_cycle": launch.fill_blocks_per_cycle * share,
            "launch.ahead_sms": 0,
        }
        | known
    )


def sampled_sms(profile: Profile) -> slice:
    """The SMs of the whole GPU whose blocks the model runs: neighbours, and none of those that are filled ahead."""
    first = profile.launch.ahead_sms
    return slice(first, first + model_sms(profile))


def model_blocks(profile: Profile, blocks: int, slots: int) -> Int64s:
    """The model's part of a grid of `blocks`: those of `sampled_sms`, in order of their start.

    The turns of the fill are known. Later blocks go to whichever SM has room, often to both of a TPC one after the
    other: two neighbours of each part of them are the model's. A part of a block too many is a whole one, so that a
    grid that just needs another wave does so here.
    """
    every, ours = profile.gpu.sm_count, sampled_sms(profile)
    turns = fill_turns(profile, blocks, slots)
    filled = turns[turns < blocks]
    chosen = turns[ours].T.reshape(-1)
    chosen = chosen[chosen < blocks]
    wanted = -(-blocks * model_sms(profile) // every)
    later = np.arange(turns.size, blocks) if blocks > turns.size else np.setdiff1d(filled, chosen)
    return np.append(chosen, _neighbours(later, max(0, wanted - len(chosen)), profile.gpu.sms_per_tpc))[:wanted]


def _neighbours(blocks: Int64s, number: int, together: int) -> Int64s:
    """So many of the blocks, so many of them neighbours: one group of each of equal parts.

    Which of its part goes by the golden ratio, so all columns and edges of a grid have their share of them.
    """
    parts = -(-number // together)
    bounds = np.arange(parts + 1) * (len(blocks) // together) // max(1, parts)
    groups = bounds[:-1] + (np.arange(parts) * GOLDEN % 1 * np.diff(bounds)).astype(np.int64)
    return blocks[(groups[:, None] * together + np.arange(together)).reshape(-1)[:number]]


@dataclass
class Watch:
    """What SMs ask the memory system for while the whole GPU runs: all, and those whose blocks the model has."""

    ours: slice
    share: float  #: of the SMs that are ours
    part: float  #: of the launch's blocks that the model runs
    gpc: npt.NDArray[np.bool_]  #: which SMs are of the GPCs that ours are of
    _others: list[Int64s] = field(default_factory=list)  #: numbers of sectors that other SMs asked for, of each step
    _ours: list[Int64s] = field(default_factory=list)
    _waits: list[Int64s] = field(default_factory=list)  #: what ours waited for: `MemorySystem.waits`
    _packets: Int64s = field(default_factory=lambda: np.zeros(2, np.int64))  #: of all, of ours
    _near: list[Int64s] = field(default_factory=list)  #: sector * SMs + SM, where an SM of ours' GPCs asked for it
    _loaded: dict[int, int] = field(default_factory=dict)  #: the step in which an array, by number, was first loaded

    def note(self, engine: Engine) -> None:
        """Note the packets of a step."""
        packets = engine.requests
        sm, k = np.nonzero(np.arange(packets.line.shape[1]) < packets.n[:, None])
        loads = packets.line[sm, k][packets.kind[sm, k] == LOAD]
        for array in np.unique(np.searchsorted(engine.shared.starts + GLOBAL_BASE, loads * LINE_BYTES, side="right")):
            self._loaded.setdefault(int(array), len(self._ours))
        order = np.argsort(packets.time[sm, k], kind="stable")
        sm, k = sm[order], k[order]
        own = (sm >= self.ours.start) & (sm < self.ours.stop)
        self._packets += len(sm), own.sum()
        sectors, packet = _sectors(packets.line[sm, k], packets.sectors[sm, k])
        mine = own[packet]
        self._others.append(sectors[~mine])
        self._ours.append(sectors[mine])
        self._waits.append(engine.memory.waits(packets, sm, k)[:, packet[mine]])
        near = self.gpc[sm][packet]
        self._near.append(sectors[near] * len(self.gpc) + sm[packet[near]])

    def begins(self) -> bool:
        """Whether the second half of the steps lies nearer to the first load of some array than that to the start."""
        return 4 * max(self._loaded.values(), default=0) > len(self._ours)

    def meet(self) -> float:
        """Of the sectors that several SMs of a GPC ask for, how many times as many do as are ours."""
        sectors, sm = np.divmod(np.unique(_joined(self._near)), len(self.gpc))
        _, sector, number = np.unique(sectors, return_inverse=True, return_counts=True)
        own = np.bincount(sector, (sm >= self.ours.start) & (sm < self.ours.stop), len(number))
        met = (own > 0) & (number > 1)
        ours = self.ours.stop - self.ours.start
        return float(np.clip(number[met].sum() / own[met].sum(), 1, self.gpc.sum() / ours)) if met.any() else 1.0

    def compare(self, arrays: Sequence[tuple[int, int]]) -> tuple[float, tuple[Region, ...]]:
        """The part of the launch's memory that is ours, had all SMs got on alike; and what is known of the arrays.

        `arrays` are their first lines and ends. Waits are those of the second half of the
        steps: at first all wait for DRAM.
        """
        if not sum(map(len, self._ours)):
            return self.share, ()
        ours, firsts = np.unique(_joined(self._ours), return_index=True)
        settled = firsts >= sum(map(len, self._ours[: len(self._ours) // 2]))
        others = np.unique(_joined(self._others))
        both, every = np.isin(ours, others), np.union1d(ours, others)
        waits = np.concatenate(self._waits, axis=1)[:, firsts]
        alike = self._packets[0] / self._packets[1] * self.share
        regions, lines, own = [], 0, 0.0
        for first, end in arrays:
            inside = slice(*np.searchsorted(ours, [first * SECTORS, end * SECTORS]))
            total = np.diff(np.searchsorted(every, [first * SECTORS, end * SECTORS]))[0]
            shared = inside.stop > inside.start and both[inside].mean() > SHARED
            touched = alike * (inside.stop - inside.start) / max(total, 1) if shared else self.share
            lines += end - first
            own += (end - first) * (1.0 if touched > WHOLE * self.share else max(touched, self.share))
            if shared:
                most = math.ceil(self.share * (end - first) * SECTORS)
                chosen = settled[inside] if settled[inside].any() else slice(None)
                found = waits[:, inside][:, chosen]
                regions.append(_region(first, end, max(self.share / touched, self.share), found, most))
            else:
                most = math.ceil(self.part * (end - first) * SECTORS)
                regions.append(Region(first, end, most=most, shared=False))
        return float(np.clip(own / max(lines, 1), self.share, 1)), tuple(regions)


def _region(first: int, end: int, cold: float, waits: Int64s, most: int) -> Region:
    """The region of an array, by what the model's SMs waited for as the first of theirs; `cold` is a part of all lines.

    Near and far lines are cold as often as they waited for DRAM.
    """
    kinds = [waits[:, waits[0] == far] for far in (0, 1)]
    near, far = (kind if kind.size else waits for kind in kinds)
    late = near[2].mean() + far[2].mean()
    near_cold = float(np.clip(2 * cold * near[2].mean() / late, 2 * cold - 1, 1)) if late else cold
    colds = near_cold, min(2 * cold - near_cold, 1.0)
    return Region(first, end, colds, (np.sort(near[1])[::-1], np.sort(far[1])[::-1]), most)


@dataclass
class Sampler:
    """Says at its beginning whether a launch is to be sampled, and completes the scale model's counts."""

    detail: str
    blocks: Int64s  #: that the scale model runs, in order of their start
    watch: Watch | None  #: while it is not known
    why_not: str = ""  #: the launch is run in full, because
    model: Profile | None = None  #: the scale model, once the launch is to be sampled
    regions: tuple[Region, ...] = ()  #: the arrays, of which other SMs fetch a part for the model's
    _until: int = 0  #: the cycle to which is watched at least
    _shares: bool = False  #: SMs share an array, as far as is known

    @classmethod
    def of(cls, engine: Engine, detail: str) -> Sampler:
        """The sampler of a launch that is about to start on the whole GPU."""
        profile, launch = engine.profile, engine.launch
        sms, slots = profile.gpu.sm_count, int(engine.dispatch.state[layout.D_SLOTS])
        ours, gpc = sampled_sms(profile), gpc_of_each_sm(profile)
        chosen = model_blocks(profile, launch.blocks, slots)
        watch = Watch(ours, model_sms(profile) / sms, len(chosen) / launch.blocks, np.isin(gpc, gpc[ours]))
        sampler = cls(detail, chosen, watch)
        if sms < LEAST_SMALLER * model_sms(profile):
            sampler._stop(f"a GPU of {sms} SMs is small enough")
        elif launch.cluster != (1, 1, 1):
            sampler._stop("its blocks form clusters")
        elif launch.blocks < sms // 2:
            sampler._stop(f"a grid of {launch.blocks} blocks leaves most of the GPU idle")
        elif _blocks_talk(launch.program.decoded.code):
            sampler._stop("its blocks can see each other's atomics or strong loads")
        return sampler

    def _stop(self, why: str) -> None:
        self.watch, self.why_not = None, why

    def after_step(self, engine: Engine, now: int) -> None:
        """Look at the launch at a step's end; sets `model` if it is to be sampled from here on."""
        assert self.watch is not None
        state, blocks = engine.dispatch.state, engine.launch.blocks
        executed = int(engine.shared.inst[:, :, Inst.EXECUTED].sum())
        if executed:  # what the first instructions wait for says nothing
            self._until = self._until or now + WATCHED_CYCLES
        if int(state[layout.D_ENDED]) == blocks:
            self._stop(f"it has {executed:,} warp instructions")
        elif self._watches_on(engine, executed, now):
            self.watch.note(engine)
        elif self.detail == "sampled" or executed * blocks >= AUTO_INSTRUCTIONS * int(state[layout.D_NEXT]):
            touched, self.regions = self._compare(engine)
            self.model, self.watch = scale_model(engine.profile, touched, self.watch.meet()), None

    def _watches_on(self, engine: Engine, executed: int, now: int) -> bool:
        """Whether the beginning, in which so many instructions were executed, goes on at cycle `now`."""
        assert self.watch is not None
        if executed < WATCHED_INSTRUCTIONS or (now <= self._until and executed < MOST_WATCHED):
            return True
        if not (now <= self._until or (executed < LONGEST_WATCHED and self.watch.begins())):
            return False
        self._shares = self._shares or any(region.shared for region in self._compare(engine)[1])
        return self._shares

    def _compare(self, engine: Engine) -> tuple[float, tuple[Region, ...]]:
        """`Watch.compare` of the launch's arrays."""
        assert self.watch is not None
        bounds = np.stack([engine.shared.starts, engine.shared.ends + LINE_BYTES - 1]) + GLOBAL_BASE
        return self.watch.compare([(int(a), int(b)) for a, b in (bounds // LINE_BYTES).T])

    # -- when the scale model has run ---------------------------------------------------

    def complete(self, model: LaunchResult, profile: Profile) -> LaunchResult:
        """The model's result as one of the whole GPU and grid. Pipe and stage times are ticks on both sides."""
        assert self.model is not None
        ran, blocks = len(self.blocks), len(model.blocks)
        inst, stall = (_scale(counts, blocks, ran) for counts in (model.inst, model.stall))
        self._let_all_exit(inst, model)
        stall[:, Stall.SELECTED] = inst[:, Inst.EXECUTED]
        spread = _spread(model.blocks[self.blocks])
        sms = profile.gpu.sm_count
        times = _all_blocks(model.blocks[self.blocks], self.model.gpu.sm_count, blocks, sms)
        mem, busy = self._mem(model, profile)
        return replace(
            model,
            gpu=profile.name,
            inst=inst,
            stall=stall,
            sm=_all_sms(model.sm, stall, times, sms),
            mem=mem,
            dram_channel_busy=busy,
            blocks=times,
            sampling=Sampling(ran, spread),
        )

    def _let_all_exit(self, inst: Int64s, model: LaunchResult) -> None:
        """Every thread exits once, whatever rounding and uneven blocks say."""
        exits = np.flatnonzero(model.program.decoded.code[:, Col.OP] == Op.EXIT)
        if len(exits):
            missing = int(np.prod(model.grid)) * int(np.prod(model.block)) - int(inst[exits, Inst.THREADS_ON].sum())
            most = exits[np.argmax(inst[exits, Inst.THREADS_ON])]
            inst[most, [Inst.THREADS, Inst.THREADS_ON]] += missing

    def _mem(self, model: LaunchResult, profile: Profile) -> tuple[Int64s, Int64s]:
        """The memory system's counts, and the time that DRAM's channels are busy."""
        ran, blocks = len(self.blocks), len(model.blocks)
        mem = _scale(model.mem, blocks, ran)
        rows = Mem.DRAM_ROW_HIT, Mem.DRAM_ROW_MISS, Mem.DRAM_ROW_CONFLICT
        bursts = Mem.DRAM_READ_BURSTS, Mem.DRAM_WRITE_BURSTS
        waiting = int(_scale(model.mem[list(bursts)].sum() - model.mem[list(rows)].sum(), blocks, ran))
        mem[rows[0]] = max(0, mem[list(bursts)].sum() - mem[list(rows[1:])].sum() - waiting)
        few, every = len(model.dram_channel_busy), profile.dram.channels
        total = int(_scale(model.dram_channel_busy.sum(), blocks, ran))
        busy = _apportion(total, model.dram_channel_busy[np.arange(every) % few])
        mem[Mem.DRAM_CYCLES_BUSY] = busy.sum()
        return mem, busy


def _sectors(lines: Int64s, masks: Int64s) -> tuple[Int64s, Int64s]:
    """Numbers of the sectors that packets ask for, and the packet of each."""
    packet, sector = np.nonzero((masks | masks >> SECTORS)[:, None] >> np.arange(SECTORS) & 1)
    return lines[packet] * SECTORS + sector, packet


def _joined(numbers: Sequence[Int64s]) -> Int64s:
    return np.concatenate([np.zeros(0, np.int64), *numbers])


def _blocks_talk(code: npt.NDArray[np.int32]) -> bool:
    """Whether a block may wait for another, or count it: then none can be left out."""
    op, away = code[:, Col.OP], ~np.isin(code[:, Col.SPACE], (Space.SHARED, Space.LOCAL, Space.CONSTANT))
    strong = (op == Op.LD) & ((code[:, Col.FLAGS] & FLAG_STRONG) != 0)
    return bool((away & ((op == Op.ATOM) | strong)).any())


def _all_sms(model: Int64s, stall: Int64s, blocks: Int64s, sms: int) -> Int64s:
    """Counts by SM of the whole GPU: the model's SMs again and again, with the sums that instructions have."""
    sm = model[np.arange(sms) % len(model)]
    selected, not_selected = (int(stall[:, reason].sum()) for reason in (Stall.SELECTED, Stall.NOT_SELECTED))
    totals = {Sm.WARPS: int(stall.sum()), Sm.ISSUE_ACTIVE: selected, Sm.ELIGIBLE: selected + not_selected}
    for column, total in totals.items():
        sm[:, column] = _apportion(total, sm[:, column])
    sm[:, Sm.BLOCKS] = np.bincount(blocks[:, 0], minlength=sms)
    return sm


def _all_blocks(ran: Int64s, model_sms: int, blocks: int, sms: int) -> Int64s:
    """SM and times of all blocks: those that ran, on one group of SMs after another, in order of their start."""
    groups = -(-sms // model_sms)
    copies = np.tile(ran, (groups, 1))
    copies[:, 0] += np.repeat(np.arange(groups) * model_sms, len(ran))
    copies = copies[copies[:, 0] < sms]
    if len(copies) < blocks:  # SMs of the last, incomplete group may hold fewer than the mean
        copies = np.resize(copies, (blocks, 3))
    return np.ascontiguousarray(copies[np.lexsort((copies[:, 0], copies[:, 1]))][:blocks])


def _spread(blocks: Int64s) -> float:
    """Standard deviation over mean of the blocks' times."""
    spent = blocks[:, 2] - blocks[:, 1]
    return float(spent.std() / spent.mean())


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
