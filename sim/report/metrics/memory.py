"""Memory workload analysis: requests, sectors, hits and bytes at L1, shared memory, L2 and DRAM."""

from __future__ import annotations

from sim.counters import Inst, Mem
from sim.report.counts import Counts
from sim.report.metric import Metric, in_section, percent, ratio
from sim.report.metrics.speed import ELAPSED, SM_PARTS, memory_access, memory_requests

_m = in_section("MemoryWorkloadAnalysis")
_t = in_section("MemoryWorkloadAnalysis_Tables")

#: Kinds that pass the L1 tag stage: Nsight's name, then the words for it.
CACHED = {
    "global_ld": ("mem_global_op_ld", "global loads"),
    "global_st": ("mem_global_op_st", "global stores"),
    "global_atom": ("mem_global_op_atom", "global atomics"),
    "global_red": ("mem_global_op_red", "global reductions"),
    "ldgsts": ("mem_global_op_ldgsts", "asynchronous copies to shared memory"),
    "local_ld": ("mem_local_op_ld", "local loads"),
    "local_st": ("mem_local_op_st", "local stores"),
}
#: Shared-memory wavefronts: Nsight's name, the kinds it holds, the words for it.
SHARED = {
    "mem_shared_op_ld": (("shared_ld", "ldsm"), "shared loads"),
    "mem_shared_op_st": (("shared_st", "stsm"), "shared stores"),
    "mem_shared_op_atom": (("shared_atom",), "shared atomics"),
    "mem_shared": (("shared_ld", "ldsm", "shared_st", "stsm", "shared_atom"), "shared memory"),
}
#: Instruction counts by kind: Nsight's name, then the words for it.
INSTRUCTIONS = {
    "global_ld": "global load",
    "global_st": "global store",
    "global_atom": "global atomic",
    "global_red": "global reduction",
    "ldgsts": "asynchronous copy (LDGSTS)",
    "local_ld": "local load",
    "local_st": "local store",
    "shared_ld": "shared load",
    "shared_st": "shared store",
    "shared_atom": "shared atomic",
    "ldsm": "matrix load (LDSM)",
    "stsm": "matrix store (STSM)",
}
LOADS_AND_STORES = ("global_ld", "global_st", "local_ld", "local_st")


def hit_rate(c: Counts, *kinds: str) -> float:
    """Sectors found in L1, in percent of the sectors looked up."""
    return percent(c.inst(Inst.HIT_SECTORS, *kinds), c.inst(Inst.SECTORS, *kinds))


def misses(c: Counts, *kinds: str) -> int:
    return c.inst(Inst.SECTORS, *kinds) - c.inst(Inst.HIT_SECTORS, *kinds)


def l2_hit_rate(c: Counts) -> float:
    """Hits of reads and writes, in percent of their look-ups."""
    return percent(c.mem(Mem.L2_READ_HIT, Mem.L2_WRITE_HIT), c.mem(Mem.L2_READ, Mem.L2_WRITE))


def _instructions(kind: str, words: str) -> Metric:
    return _t(f"smsp__inst_executed_op_{kind}.sum", f"{words.capitalize()} instructions", "inst",
              lambda c: c.inst(Inst.EXECUTED, kind),
              f"{words.capitalize()} warp instructions executed.")  # fmt: skip


def _tags(kind: str, name: str, words: str) -> list[Metric]:
    """The L1 tag stage's metrics for one kind of access."""
    return [
        _t(f"l1tex__t_requests_pipe_lsu_{name}.sum", "Requests", "request",
           lambda c: c.inst(Inst.REQUESTS, kind), f"Warp requests of {words} that reached L1."),
        _t(f"l1tex__t_sectors_pipe_lsu_{name}.sum", "Sectors", "sector",
           lambda c: c.inst(Inst.SECTORS, kind), f"32-byte sectors that {words} asked L1 for."),
        _t(f"l1tex__t_sectors_pipe_lsu_{name}_lookup_hit.sum", "Sector Hits", "sector",
           lambda c: c.inst(Inst.HIT_SECTORS, kind), f"Sectors of {words} that L1 held."),
        _t(f"l1tex__t_sectors_pipe_lsu_{name}_lookup_miss.sum", "Sector Misses", "sector",
           lambda c: misses(c, kind), f"Sectors of {words} that L1 did not hold."),
        _t(f"l1tex__t_sector_pipe_lsu_{name}_hit_rate.pct", "Hit Rate", "%",
           lambda c: hit_rate(c, kind), f"Sectors of {words} found in L1."),
        _t(f"l1tex__average_t_sectors_per_request_pipe_lsu_{name}.ratio", "Sectors/Req", "sector/request",
           lambda c: ratio(c.inst(Inst.SECTORS, kind), c.inst(Inst.REQUESTS, kind)),
           f"Sectors a request of {words}; 4 is dense for 32-bit words."),
        _t(f"l1tex__t_bytes_pipe_lsu_{name}.sum", "Bytes", "byte",
           lambda c: c.inst(Inst.SECTORS, kind) * c.sector_bytes, f"Bytes of the sectors of {words}."),
        _t(f"tailwave__ideal_sectors_{name}.sum", "Ideal Sectors", "sector",
           lambda c: c.ideal_sectors(kind), f"Sectors that {words} would take if their bytes lay densely."),
    ]  # fmt: skip


def _bytes_per_sector(kind: str, name: str, words: str) -> list[Metric]:
    root = f"smsp__sass_average_data_bytes_per_sector_{name}"
    return [
        _t(f"{root}.ratio", f"Average Bytes Per Sector For {words.title()}", "byte/sector",
           lambda c: ratio(c.inst(Inst.BYTES_ASKED, kind), c.inst(Inst.SECTORS, kind)),
           f"Bytes that the lanes of {words} asked for in each sector; 32 uses all of it."),
        _t(f"{root}.max_rate", f"Maximum Bytes Per Sector For {words.title()}", "byte/sector",
           lambda c: c.sector_bytes, "The size of a sector."),
    ]  # fmt: skip


def _wavefronts(name: str, kinds: tuple[str, ...], words: str) -> list[Metric]:
    return [
        _t(f"l1tex__data_pipe_lsu_wavefronts_{name}.sum", "Wavefronts", "wavefront",
           lambda c: c.inst(Inst.WAVEFRONTS, *kinds), f"Passes of {words} through the data stage."),
        _t(f"l1tex__data_bank_conflicts_pipe_lsu_{name}.sum", "Bank Conflicts", "wavefront",
           lambda c: c.excess_wavefronts(*kinds), f"Wavefronts of {words} beyond what their widths need.",
           "A card also counts here waits for other users of the data stage."),
    ]  # fmt: skip


_L2_ROWS = (
    ("op_read", "reads", Mem.L2_READ),
    ("op_write", "writes", Mem.L2_WRITE),
    ("op_atom", "atomics", Mem.L2_ATOMIC),
    ("op_red", "reductions", Mem.L2_REDUCTION),
    ("srcunit_tex", "requests of the SMs, each sector once", Mem.L2_TEX),
    ("srcunit_tex_lookup_hit", "requests of the SMs that L2 held", Mem.L2_TEX_HIT),
    ("srcunit_tex_lookup_miss", "requests of the SMs that L2 did not hold", Mem.L2_TEX_MISS),
    ("op_read_lookup_hit", "reads that hit", Mem.L2_READ_HIT),
    ("op_write_lookup_hit", "writes that hit", Mem.L2_WRITE_HIT),
)
_CROSSING = "A sector that crosses to the other L2 partition counts in both, as on the card."


def _l2_sectors(name: str, words: str, column: Mem) -> Metric:
    return _t(f"lts__t_sectors_{name}.sum", "Sectors", "sector", lambda c: c.mem(column),
              f"Sectors looked up in L2 by {words}.", _CROSSING if name.startswith("op_") else "")  # fmt: skip


def _l2() -> list[Metric]:
    return [
        _t("lts__t_sectors.sum", "L2 Cache Sectors", "sector", lambda c: c.l2_sectors,
           "Sectors looked up in L2 by reads, writes, atomics and reductions.", _CROSSING),
        *(_l2_sectors(name, words, column) for name, words, column in _L2_ROWS),
        _t(f"lts__t_sectors_srcunit_tex{ELAPSED}", "L2 Cache Sector Throughput For TEX", "%",
           lambda c: percent(c.mem(Mem.L2_TEX) * c.sector_bytes,
                             c.elapsed * c.profile.l2.slices * c.profile.l2.slice_bytes_per_cycle),
           "Sectors that the SMs asked L2 for, in percent of the slices' bandwidth."),
        _t("lts__t_requests_srcunit_tex.sum", "Requests", "request", lambda c: c.mem(Mem.L2_REQUESTS),
           "Requests from L1 to L2, a line's sectors in one."),
        _t("lts__t_bytes.sum", "L2 Bytes", "byte", lambda c: c.l2_sectors * c.sector_bytes,
           "Bytes of the sectors looked up in L2.", _CROSSING),
        _t("lts__t_sector_op_read_hit_rate.pct", "L2 Hit Rate For Loads", "%",
           lambda c: percent(c.mem(Mem.L2_READ_HIT), c.mem(Mem.L2_READ)), "Read sectors found in L2."),
        _t("lts__t_sector_op_write_hit_rate.pct", "L2 Hit Rate For Stores", "%",
           lambda c: percent(c.mem(Mem.L2_WRITE_HIT), c.mem(Mem.L2_WRITE)), "Written sectors found in L2."),
        _t("tailwave__lts_sectors_crossed.sum", "Crossed Partitions", "sector", lambda c: c.mem(Mem.L2_CROSSED),
           "Sectors that went to the other L2 partition."),
        _t("tailwave__lts_sectors_evicted_dirty.sum", "Written Back", "sector",
           lambda c: c.mem(Mem.L2_EVICTED_DIRTY), "Sectors that L2 wrote to DRAM to make room."),
        _t("l1tex__m_xbar2l1tex_read_sectors.sum", "L2 to L1 Sectors", "sector", lambda c: c.mem(Mem.XBAR_READ),
           "Sectors that came from L2 to the SMs."),
        _t("l1tex__m_xbar2l1tex_read_bytes.sum", "L2 to L1 Bytes", "byte",
           lambda c: c.mem(Mem.XBAR_READ) * c.sector_bytes, "Bytes that came from L2 to the SMs."),
        _t("l1tex__m_l1tex2xbar_write_bytes.sum", "L1 to L2 Bytes", "byte",
           lambda c: c.mem(Mem.XBAR_WRITE) * c.sector_bytes, "Bytes that went from the SMs to L2."),
    ]  # fmt: skip


def _dram(way: str, sectors: Mem, bursts: Mem) -> list[Metric]:
    return [
        _t(f"dram__sectors_{way}.sum", "Sectors", "sector", lambda c: c.mem(sectors),
           f"Sectors that DRAM {way}s were for."),
        _t(f"dram__bytes_{way}.sum", "Bytes", "byte", lambda c: c.burst_bytes(bursts),
           f"Bytes that DRAM {way}s moved: whole bursts."),
        _t(f"dram__bytes_{way}.sum.per_second", "Throughput", "byte/second",
           lambda c: ratio(c.burst_bytes(bursts), c.seconds),
           f"Bytes that DRAM {way}s moved a second of the elapsed time."),
        _t(f"dram__bytes_{way}{ELAPSED}", "% Peak", "%",
           lambda c: percent(c.burst_bytes(bursts), c.elapsed * c.dram_bytes_per_cycle),
           f"Bytes that DRAM {way}s moved, in percent of the nominal bandwidth."),
    ]  # fmt: skip


METRICS = (
    _m("dram__bytes.sum.per_second", "Memory Throughput", "byte/second", lambda c: ratio(c.dram_bytes, c.seconds),
       "Bytes that DRAM moved a second of the elapsed time."),
    _m(f"gpu__compute_memory_access_throughput{ELAPSED}", "Mem Busy", "%", memory_access,
       "The busiest of the memory units' own work: L1 data and tags, L2, DRAM."),
    _m("l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate", "%", lambda c: hit_rate(c, *CACHED),
       "Sectors of global and local accesses found in L1."),
    _m(f"gpu__compute_memory_request_throughput{ELAPSED}", "Max Bandwidth", "%", memory_requests,
       "The busiest of the ways between the memory units: SM to L1, L1 to L2, L2 to DRAM."),
    _m("lts__t_sector_hit_rate.pct", "L2 Hit Rate", "%", l2_hit_rate, "Read and written sectors found in L2.",
       "Atomics and reductions are left out."),
    _m(f"sm__memory_throughput{ELAPSED}", "Mem Pipes Busy", "%",
       lambda c: SM_PARTS["sm__inst_executed_pipe_lsu"](c, c.elapsed_subcore),
       "Memory instructions in percent of the rate that the SMs' address units could take."),
    _m("dram__bytes.sum", "DRAM Bytes", "byte", lambda c: c.dram_bytes, "Bytes that moved between L2 and DRAM."),
    _m("l1tex__t_requests.sum", "L1 Requests", "request", lambda c: c.inst(Inst.REQUESTS, *CACHED),
       "Global and local requests that reached L1."),
    _m("l1tex__t_sectors.sum", "L1 Sectors", "sector", lambda c: c.inst(Inst.SECTORS, *CACHED),
       "Sectors of global and local requests."),
    _m("l1tex__t_bytes.sum", "L1 Bytes", "byte", lambda c: c.inst(Inst.SECTORS, *CACHED) * c.sector_bytes,
       "Bytes of the sectors of global and local requests."),
    _m("l1tex__data_pipe_lsu_wavefronts.sum", "Data Pipe Wavefronts", "wavefront",
       lambda c: c.inst(Inst.WAVEFRONTS), "Passes through the data stage of L1 and shared memory."),
    _m("derived__local_spilling_requests", "Local Memory Spilling Requests", "request",
       lambda c: c.inst(Inst.REQUESTS, "local_ld", "local_st"), "Requests to local memory.",
       "All local memory counts as spilled."),
    *(_instructions(kind, words) for kind, words in INSTRUCTIONS.items()),
    *(m for kind, (name, words) in CACHED.items() for m in _tags(kind, name, words)),
    *(m for kind in LOADS_AND_STORES for m in _bytes_per_sector(kind, *CACHED[kind])),
    *(m for name, (kinds, words) in SHARED.items() for m in _wavefronts(name, kinds, words)),
    _t("smsp__sass_inst_executed_op_shared.sum", "Shared Memory Instructions", "inst",
       lambda c: c.inst(Inst.EXECUTED, *SHARED["mem_shared"][0]), "Shared-memory warp instructions executed."),
    *_l2(),
    *_dram("read", Mem.DRAM_READ, Mem.DRAM_READ_BURSTS),
    *_dram("write", Mem.DRAM_WRITE, Mem.DRAM_WRITE_BURSTS),
)  # fmt: skip
