"""Source counters: branches, divergence, and the accesses that cost more than they ask for."""

from __future__ import annotations

from sim.counters import Inst, Stall
from sim.report.counts import BRANCH_LIKE, BRANCHES, Counts
from sim.report.metric import Metric, in_section, percent, ratio
from sim.report.metrics.memory import CACHED, SHARED
from sim.report.stalls import REASONS, cycles_name

_m = in_section("SourceCounters")

DEVICE = ("global_ld", "global_st", "global_atom", "global_red", "ldgsts")
_SHARED_KINDS = SHARED["mem_shared"][0]


def branch_targets(c: Counts) -> int:
    return c.op_inst(Inst.EXECUTED, *BRANCHES)


def divergent(c: Counts) -> int:
    return c.inst(Inst.BRANCHES_DIVERGENT)


def _stall_cycles(reason: Stall) -> Metric:
    about = REASONS[reason]
    return _m(cycles_name(reason), f"{about.label} Cycles", "warp-cycle", lambda c: c.stall(reason),
              f"Warp-cycles in this state: {about.meaning}.",
              "Every warp-cycle is counted; a card samples them.")  # fmt: skip


METRICS = (
    _m("smsp__inst_executed_op_branch.sum", "Branch Instructions", "inst",
       lambda c: c.op_inst(Inst.EXECUTED, *BRANCH_LIKE), "Branches, exits and reconvergence (BSYNC) instructions."),
    _m("derived__smsp__inst_executed_op_branch_pct", "Branch Instructions Ratio", "%",
       lambda c: percent(c.op_inst(Inst.EXECUTED, *BRANCH_LIKE), c.executed),
       "Branch instructions in percent of all executed."),
    _m("sm__sass_branch_targets.sum", "Branch Targets", "branch", branch_targets, "Branches that warps executed."),
    _m("sm__sass_branch_targets_threads_divergent.sum", "Divergent Branches", "branch", divergent,
       "Branches at which the threads of a warp parted."),
    _m("smsp__branch_targets_threads_divergent", "Divergent Branches", "branch", divergent,
       "Branches at which the threads of a warp parted."),
    _m("smsp__sass_branch_targets_threads_divergent.avg", "Avg. Divergent Branches", "branch",
       lambda c: divergent(c) / (c.sms * c.subcores), "Divergent branches, mean over schedulers."),
    _m("smsp__sass_average_branch_targets_threads_uniform.pct", "Branch Efficiency", "%",
       lambda c: percent(branch_targets(c) - divergent(c), branch_targets(c)),
       "Branches at which a warp's threads went one way."),
    _m("thread_inst_executed", "Thread Instructions Executed", "inst", lambda c: c.inst(Inst.THREADS),
       "Instructions by active threads, before predicates."),
    _m("thread_inst_executed_true", "Predicated-On Thread Instructions Executed", "inst",
       lambda c: c.inst(Inst.THREADS_ON), "Instructions by threads whose predicate was true."),
    _m("derived__avg_thread_executed", "Avg. Threads Executed", "thread",
       lambda c: ratio(c.inst(Inst.THREADS), c.executed), "Active threads an instruction."),
    _m("derived__avg_thread_executed_true", "Avg. Predicated-On Threads Executed", "thread",
       lambda c: ratio(c.inst(Inst.THREADS_ON), c.executed), "Threads an instruction whose predicate was true."),
    _m("memory_l1_tag_requests_global", "L1 Tag Requests Global", "line", lambda c: c.inst(Inst.LINES, *DEVICE),
       "128-byte lines looked up by global accesses."),
    _m("memory_l1_wavefronts_shared", "L1 Wavefronts Shared", "wavefront",
       lambda c: c.inst(Inst.WAVEFRONTS, *_SHARED_KINDS), "Passes of shared-memory accesses through the data stage."),
    _m("memory_l1_wavefronts_shared_ideal", "L1 Wavefronts Shared Ideal", "wavefront",
       lambda c: c.inst(Inst.IDEAL_WAVEFRONTS, *_SHARED_KINDS), "Passes that the access widths alone would need."),
    _m("derived__memory_l1_wavefronts_shared_excessive", "L1 Wavefronts Shared Excessive", "wavefront",
       lambda c: c.excess_wavefronts(*_SHARED_KINDS), "Passes that bank conflicts added."),
    _m("derived__memory_l1_conflicts_shared_nway", "L1 Conflicts Shared N-Way", "",
       lambda c: ratio(c.inst(Inst.WAVEFRONTS, *_SHARED_KINDS), c.inst(Inst.IDEAL_WAVEFRONTS, *_SHARED_KINDS)),
       "Passes over ideal passes: 1 is free of conflicts."),
    _m("memory_l2_theoretical_sectors_global", "L2 Theoretical Sectors Global", "sector",
       lambda c: c.inst(Inst.SECTORS, *DEVICE), "Sectors that global accesses touch."),
    _m("memory_l2_theoretical_sectors_global_ideal", "L2 Theoretical Sectors Global Ideal", "sector",
       lambda c: c.ideal_sectors(*DEVICE), "Sectors that dense accesses for the same bytes would touch."),
    _m("derived__memory_l2_theoretical_sectors_global_excessive", "L2 Theoretical Sectors Global Excessive", "sector",
       lambda c: c.inst(Inst.SECTORS, *DEVICE) - c.ideal_sectors(*DEVICE), "Sectors that scattered accesses added."),
    _m("memory_l2_theoretical_sectors_local", "L2 Theoretical Sectors Local", "sector",
       lambda c: c.inst(Inst.SECTORS, "local_ld", "local_st"), "Sectors that local accesses touch."),
    _m("smsp__pcsamp_sample_count", "# Samples", "warp-cycle", lambda c: c.stall(*Stall),
       "Warp-cycles accounted to the stall reasons: all of them.",
       "Every warp-cycle is counted; a card samples them."),
    *map(_stall_cycles, REASONS),
)  # fmt: skip

assert set(DEVICE) <= set(CACHED)
