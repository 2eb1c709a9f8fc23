"""Scheduler, warp state and instruction statistics: who issued, who waited and for what."""

from __future__ import annotations

from sim.counters import Inst, Sm, Stall
from sim.isa import Op
from sim.report.counts import Counts
from sim.report.metric import Metric, in_section, percent, ratio
from sim.report.metrics.speed import ACTIVE
from sim.report.stalls import REASONS, ratio_name

_s = in_section("SchedulerStats")
_w = in_section("WarpStateStats")
_i = in_section("InstructionStats")

#: Floating-point thread instructions by Nsight's operation name.
FLOATING_POINT = {
    "fadd": Op.FADD,
    "fmul": Op.FMUL,
    "ffma": Op.FFMA,
    "dadd": Op.DADD,
    "dmul": Op.DMUL,
    "dfma": Op.DFMA,
    "hadd": Op.HADD2,
    "hmul": Op.HMUL2,
    "hfma": Op.HFMA2,
}


def issue_active(c: Counts) -> float:
    return percent(c.issue_cycles, c.active_subcore)


def _stall_ratio(reason: Stall) -> Metric:
    about = REASONS[reason]
    return _w(ratio_name(reason), about.label, "warp/inst", lambda c: ratio(c.stall(reason), c.issue_cycles),
              f"Warp-cycles an issued instruction: {about.meaning}.")  # fmt: skip


def _floating_point(name: str, op: Op) -> Metric:
    return _i(f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum", f"{op.name} Thread Instructions", "inst",
              lambda c: c.op_inst(Inst.THREADS_ON, op),
              f"{op.name} instructions by threads that executed them.")  # fmt: skip


METRICS = (
    _s("smsp__warps_active.avg.peak_sustained", "GPU Maximum Warps Per Scheduler", "warp",
       lambda c: c.profile.occupancy.max_warps_per_sm / c.subcores, "Warps that one scheduler can hold."),
    _s("smsp__maximum_warps_avg_per_active_cycle", "Theoretical Warps Per Scheduler", "warp",
       lambda c: c.occupancy.warps_per_sm / c.subcores, "Warps a scheduler that this launch can have resident."),
    _s("smsp__warps_active.avg.per_cycle_active", "Active Warps Per Scheduler", "warp",
       lambda c: ratio(c.warp_cycles, c.active_subcore), "Resident warps a scheduler, mean over active cycles."),
    _s("smsp__warps_eligible.avg.per_cycle_active", "Eligible Warps Per Scheduler", "warp",
       lambda c: ratio(c.sm(Sm.ELIGIBLE), c.active_subcore), "Warps a scheduler that could issue, mean."),
    _s("smsp__issue_active.avg.per_cycle_active", "Issued Warp Per Scheduler", "warp",
       lambda c: ratio(c.issue_cycles, c.active_subcore), "Instructions a scheduler issued a cycle."),
    _s(f"smsp__issue_inst0{ACTIVE}", "No Eligible", "%", lambda c: 100.0 - issue_active(c),
       "Cycles in which a scheduler issued nothing."),
    _s(f"smsp__issue_active{ACTIVE}", "One or More Eligible", "%", issue_active,
       "Cycles in which a scheduler issued."),
    _w("smsp__average_warp_latency_per_inst_issued.ratio", "Warp Cycles Per Issued Instruction", "cycle",
       lambda c: ratio(c.warp_cycles, c.issued), "Cycles between two issues of one warp."),
    _w("smsp__average_warps_active_per_inst_executed.ratio", "Warp Cycles Per Executed Instruction", "cycle",
       lambda c: ratio(c.warp_cycles, c.executed), "Warp-cycles an executed instruction."),
    _w("smsp__thread_inst_executed_per_inst_executed.ratio", "Avg. Active Threads Per Warp", "thread",
       lambda c: ratio(c.inst(Inst.THREADS), c.executed), "Active threads an instruction, before predicates."),
    _w("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio", "Avg. Not Predicated Off Threads Per Warp",
       "thread", lambda c: ratio(c.inst(Inst.THREADS_ON), c.executed),
       "Threads an instruction whose predicate was true."),
    *map(_stall_ratio, REASONS),
    _i("smsp__inst_executed.sum", "Executed Instructions", "inst", lambda c: c.executed,
       "Warp instructions executed."),
    _i("smsp__inst_executed.avg", "Avg. Executed Instructions Per Scheduler", "inst",
       lambda c: c.executed / (c.sms * c.subcores), "Warp instructions executed, mean over schedulers."),
    _i("smsp__inst_issued.sum", "Issued Instructions", "inst", lambda c: c.issued,
       "Warp instructions issued, replays among them."),
    _i("smsp__inst_issued.avg", "Avg. Issued Instructions Per Scheduler", "inst",
       lambda c: c.issued / (c.sms * c.subcores), "Warp instructions issued, mean over schedulers."),
    _i("sm__inst_executed.sum", "Executed Instructions", "inst", lambda c: c.executed, "Warp instructions executed."),
    _i("inst_executed", "Instructions Executed", "inst", lambda c: c.executed, "Warp instructions executed."),
    _i("smsp__thread_inst_executed.sum", "Thread Instructions", "inst", lambda c: c.inst(Inst.THREADS),
       "Instructions by active threads, before predicates."),
    _i("smsp__thread_inst_executed_pred_on.sum", "Predicated-On Thread Instructions", "inst",
       lambda c: c.inst(Inst.THREADS_ON), "Instructions by threads whose predicate was true."),
    *(_floating_point(name, op) for name, op in FLOATING_POINT.items()),
)  # fmt: skip
