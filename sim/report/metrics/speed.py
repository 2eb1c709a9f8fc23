"""Speed of light: time, and how near each unit came to its peak."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from sim.counters import Mem, Sm
from sim.isa import Pipe
from sim.report.counts import Counts
from sim.report.metric import Metric, Value, in_section, percent

_m = in_section("SpeedOfLight")
ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
ACTIVE = ".avg.pct_of_peak_sustained_active"


def largest(values: Iterable[float]) -> float:
    """The largest of the values that are numbers; NaN when there are none."""
    return max((v for v in values if not math.isnan(v)), default=math.nan)


Part = Callable[[Counts, float], float]  #: how busy a part was, in percent of `whole` cycles


def _pipe_demand(pipe: Pipe) -> Part:
    return lambda c, whole: percent(c.pipe_demand(pipe), whole)


#: Parts of the SMs; `whole` is in sub-core cycles.
SM_PARTS: dict[str, Part] = {
    "sm__inst_executed": lambda c, whole: percent(c.executed, whole),
    "sm__issue_active": lambda c, whole: percent(c.issue_cycles, whole),
    "sm__pipe_alu_cycles_active": lambda c, whole: percent(c.pipe_busy(Pipe.ALU), whole),
    "sm__pipe_fma_cycles_active": lambda c, whole: percent(c.pipe_busy(*c.fma_pipes), whole * len(c.fma_pipes)),
    "sm__pipe_fmaheavy_cycles_active": lambda c, whole: percent(c.pipe_busy(Pipe.FMAHEAVY), whole),
    "sm__pipe_fp64_cycles_active": lambda c, whole: percent(c.pipe_busy(Pipe.FP64), whole),
    "sm__pipe_tensor_cycles_active": lambda c, whole: percent(c.pipe_busy(Pipe.TENSOR), whole),
    "sm__inst_executed_pipe_xu": _pipe_demand(Pipe.XU),
    "sm__inst_executed_pipe_fp16": _pipe_demand(Pipe.FP16),
    "sm__inst_executed_pipe_uniform": _pipe_demand(Pipe.UNIFORM),
    "sm__inst_executed_pipe_cbu": _pipe_demand(Pipe.CBU),
    "sm__inst_executed_pipe_adu": _pipe_demand(Pipe.ADU),
    "sm__inst_executed_pipe_lsu": _pipe_demand(Pipe.LSU),
}
#: Parts of L1 and shared memory; `whole` is in SM cycles.
L1_PARTS: dict[str, Part] = {
    "l1tex__data_pipe_lsu_wavefronts": lambda c, whole: percent(c.sm(Sm.L1_DATA), whole),
    "l1tex__lsuin_requests": lambda c, whole: percent(c.pipe_demand(Pipe.LSU), whole * c.subcores),
    "tailwave__l1tex_tag_cycles": lambda c, whole: percent(c.sm(Sm.L1_TAG), whole),
    "l1tex__m_xbar2l1tex_read_sectors": lambda c, whole: percent(
        c.mem(Mem.XBAR_READ) * c.sector_bytes, whole * c.profile.l2.sm_read_bytes_per_cycle
    ),
    "l1tex__m_l1tex2xbar_req_cycles_active": lambda c, whole: percent(
        c.mem(Mem.XBAR_WRITE) * c.sector_bytes, whole * c.profile.l2.sm_write_bytes_per_cycle
    ),
}
#: Parts of L2; `whole` is in elapsed cycles.
L2_PARTS: dict[str, Part] = {
    "lts__t_sectors": lambda c, whole: percent(
        c.l2_sectors * c.sector_bytes, whole * c.profile.l2.slices * c.profile.l2.slice_bytes_per_cycle
    ),
    "lts__cycles_active": lambda c, whole: percent(c.mem(Mem.L2_CYCLES_BUSY), whole * c.profile.l2.slices),
}
#: Parts of DRAM; `whole` is in elapsed cycles.
DRAM_PARTS: dict[str, Part] = {
    "dram__bytes": lambda c, whole: percent(c.dram_bytes, whole * c.dram_bytes_per_cycle),
    "dram__cycles_active": lambda c, whole: percent(int(c.dram_busy.sum()), whole * len(c.dram_busy)),
}
#: Work inside the memory units, and ways between them.
ACCESS_PARTS = ("l1tex__data_pipe_lsu_wavefronts", "tailwave__l1tex_tag_cycles")
REQUEST_PARTS = ("l1tex__lsuin_requests", "l1tex__m_xbar2l1tex_read_sectors", "l1tex__m_l1tex2xbar_req_cycles_active")


def busiest(parts: Iterable[Part], c: Counts, whole: float) -> float:
    return largest(part(c, whole) for part in parts)


def l2_throughput(c: Counts) -> float:
    return busiest(L2_PARTS.values(), c, c.elapsed)


def dram_throughput(c: Counts) -> float:
    return busiest(DRAM_PARTS.values(), c, c.elapsed)


def memory_access(c: Counts) -> float:
    """The busiest of the memory units' own work: L1 data and tags, L2, DRAM."""
    inside = busiest((L1_PARTS[name] for name in ACCESS_PARTS), c, c.elapsed_sm)
    return largest((inside, l2_throughput(c), dram_throughput(c)))


def memory_requests(c: Counts) -> float:
    """The busiest of the ways between the units: SM to L1, L1 to L2, L2 to DRAM."""
    ways = busiest((L1_PARTS[name] for name in REQUEST_PARTS), c, c.elapsed_sm)
    return largest((ways, DRAM_PARTS["dram__bytes"](c, c.elapsed)))


#: What each of the two headline figures is the largest of, by metric name.
BREAKDOWNS: dict[str, tuple[str, ...]] = {
    f"sm__throughput{ELAPSED}": tuple(f"{part}{ELAPSED}" for part in SM_PARTS),
    f"gpu__compute_memory_throughput{ELAPSED}": tuple(
        f"{part}{ELAPSED}" for part in (*L1_PARTS, *L2_PARTS, *DRAM_PARTS)
    ),
}


def _l1(name: str, label: str, meaning: str) -> Metric:
    part = L1_PARTS[name]
    return _m(f"{name}{ELAPSED}", f"L1: {label}", "%", lambda c: part(c, c.elapsed_sm), meaning)


def _l2(name: str, label: str, meaning: str) -> Metric:
    part = L2_PARTS[name]
    return _m(f"{name}{ELAPSED}", f"L2: {label}", "%", lambda c: part(c, c.elapsed), meaning)


def _dram(name: str, label: str, meaning: str) -> Metric:
    part = DRAM_PARTS[name]
    return _m(f"{name}{ELAPSED}", f"DRAM: {label}", "%", lambda c: part(c, c.elapsed), meaning)


def _clock(c: Counts) -> Value:
    return c.clock_hz


METRICS = (
    _m(f"sm__throughput{ELAPSED}", "Compute (SM) Throughput", "%",
       lambda c: busiest(SM_PARTS.values(), c, c.elapsed_subcore),
       "The busiest part of the SMs, in percent of its peak over the elapsed time."),
    _m("gpu__time_duration.sum", "Duration", "ns", lambda c: c.seconds * 1e9, "Time from launch to drain."),
    _m(f"gpu__compute_memory_throughput{ELAPSED}", "Memory Throughput", "%",
       lambda c: largest((memory_access(c), memory_requests(c))),
       "The busiest part of the memory pipeline, L1 to DRAM, in percent of its peak over the elapsed time."),
    _m("gpc__cycles_elapsed.max", "Elapsed Cycles", "cycle", lambda c: c.elapsed, "Cycles from launch to drain."),
    _m("sm__cycles_elapsed.max", "SM Elapsed Cycles", "cycle", lambda c: c.elapsed,
       "Cycles from launch to drain: the figure to compare with a card's."),
    _m(f"l1tex__throughput{ACTIVE}", "L1/TEX Cache Throughput", "%",
       lambda c: busiest(L1_PARTS.values(), c, c.active),
       "The busiest part of L1 and shared memory, in percent of its peak while an SM had warps."),
    _m(f"l1tex__throughput{ELAPSED}", "L1TEX Throughput", "%",
       lambda c: busiest(L1_PARTS.values(), c, c.elapsed_sm),
       "The busiest part of L1 and shared memory, in percent of its peak over the elapsed time."),
    _m("sm__cycles_active.avg", "SM Active Cycles", "cycle", lambda c: c.active / c.sms,
       "Cycles with at least one resident warp, mean over SMs."),
    _m(f"lts__throughput{ELAPSED}", "L2 Cache Throughput", "%", l2_throughput,
       "The busiest part of L2, in percent of its peak over the elapsed time."),
    _m("gpc__cycles_elapsed.avg.per_second", "SM Frequency", "hz", _clock, "The SMs' mean clock.",
       "The profile's, less what busy tensor cores take of it; a card's clock moves for other reasons too."),
    _m(f"gpu__dram_throughput{ELAPSED}", "DRAM Throughput", "%", dram_throughput,
       "The larger of DRAM's moved bytes and busy channel cycles, in percent of the peak."),
    _m(f"dram__throughput{ELAPSED}", "DRAM Throughput", "%", dram_throughput,
       "The larger of DRAM's moved bytes and busy channel cycles, in percent of the peak."),
    _m("lts__cycles_elapsed.max", "L2 Elapsed Cycles", "cycle", lambda c: c.elapsed, "Elapsed cycles of L2.",
       "In SM cycles: the model has one clock, a card's L2 has its own."),
    _l1("l1tex__data_pipe_lsu_wavefronts", "Data Pipe LSU Wavefronts",
        "Cycles in which the data stage of L1 and shared memory was busy."),
    _l1("l1tex__lsuin_requests", "LSUIN Requests",
        "Memory instructions at the rate that the address units could take."),
    _l1("tailwave__l1tex_tag_cycles", "Tag Stage", "Cycles in which the tag stage of L1 was busy."),
    _l1("l1tex__m_xbar2l1tex_read_sectors", "L2 to L1 Sectors",
        "Sectors that came from L2 at the SM's read bandwidth."),
    _l1("l1tex__m_l1tex2xbar_req_cycles_active", "L1 to L2 Sectors",
        "Sectors that went to L2 at the SM's write bandwidth."),
    _l2("lts__t_sectors", "T Sectors", "Sectors looked up in L2 at the slices' bandwidth."),
    _l2("lts__cycles_active", "Slices Busy", "Slice cycles in which an L2 slice was busy."),
    _dram("dram__bytes", "Bytes", "Bytes moved at DRAM's nominal bandwidth."),
    _dram("dram__cycles_active", "Cycles Active", "Channel cycles with data on the bus."),
    _m("tailwave__launch_cycles.max", "Launch and Drain Cycles", "cycle", lambda c: c.result.launch_cycles,
       "Elapsed cycles before the first block, and those of the drain after the last."),
    _m("tailwave__launch_cycles.pct", "Launch and Drain", "%", lambda c: percent(c.result.launch_cycles, c.elapsed),
       "The share of the elapsed cycles before the first block, and in the drain after the last."),
)  # fmt: skip
