"""Compute workload analysis: instructions a cycle, and the use of each pipe."""

from __future__ import annotations

from collections.abc import Iterator

from sim.counters import Inst, Sm
from sim.isa import Pipe, TimingClass
from sim.report.counts import Counts
from sim.report.metric import Metric, in_section, percent, ratio
from sim.report.metrics.speed import ACTIVE, ELAPSED, SM_PARTS, busiest

_m = in_section("ComputeWorkloadAnalysis")

#: Pipes whose busy cycles Nsight reports, by its name.
CYCLE_PIPES = {"alu": "ALU", "fma": "FMA", "fmaheavy": "FMA (heavy)", "fp64": "FP64", "tensor": "Tensor (All)"}
#: Pipes whose instructions Nsight reports, by its name.
INSTRUCTION_PIPES = {
    "adu": "ADU",
    "alu": "ALU",
    "cbu": "CBU",
    "fma": "FMA",
    "fmaheavy": "FMA (heavy)",
    "fp16": "FP16",
    "fp64": "FP64",
    "lsu": "LSU",
    "tensor": "Tensor (All)",
    "uniform": "Uniform",
    "xu": "XU",
}
#: Tensor instructions by operand type.
TENSOR_CLASSES = {
    "hmma": ("Tensor (FP)", (TimingClass.HMMA_16816, TimingClass.HMMA_1688)),
    "imma": ("Tensor (INT)", (TimingClass.IMMA,)),
    "dmma": ("Tensor (DP)", (TimingClass.DMMA,)),
}
_SPANS = ((ELAPSED, "the elapsed time"), (ACTIVE, "the time with resident warps"))
_DIVIDED = "Instructions that two pipes take are divided by the pipes' busy cycles."


def subcore_cycles(c: Counts, span: str) -> int:
    """Sub-core cycles that a percentage with this suffix is of."""
    return c.elapsed_subcore if span == ELAPSED else c.active_subcore


def pipe_executed(c: Counts, pipe: str) -> int:
    """Warp instructions of a pipe by Nsight's name; fma holds both halves."""
    pipes = c.fma_pipes if pipe == "fma" else (Pipe[pipe.upper()],)
    return sum(c.pipe_executed[p] for p in pipes)


def pipe_demand(c: Counts, pipe: str, span: str) -> float:
    """A pipe's instructions in percent of its issue rate."""
    pipes = c.fma_pipes if pipe == "fma" else (Pipe[pipe.upper()],)
    return percent(sum(c.pipe_demand(p) for p in pipes), subcore_cycles(c, span) * len(pipes))


def tensor_executed(c: Counts, kind: str) -> int:
    classes = TENSOR_CLASSES[kind][1]
    return sum(int(c.result.inst[c.timing_class == cls, Inst.EXECUTED].sum()) for cls in classes)


def tensor_demand(c: Counts, kind: str, span: str) -> float:
    """Sub-core cycles that one type's tensor instructions need, in percent."""
    need = 0.0
    for cls in TENSOR_CLASSES[kind][1]:
        timing = c.timing(cls)
        count = int(c.result.inst[c.timing_class == cls, Inst.EXECUTED].sum())
        need += count * timing.interval_cycles if timing else 0.0
    return percent(need, subcore_cycles(c, span))


def _pipe_cycles(pipe: str, label: str, span: str, of: str) -> Metric:
    part = SM_PARTS[f"sm__pipe_{pipe}_cycles_active"]
    return _m(f"sm__pipe_{pipe}_cycles_active{span}", label, "%",
              lambda c: part(c, subcore_cycles(c, span)),
              f"Cycles in which the {label} pipe was busy, in percent of {of}.")  # fmt: skip


def _pipe_count(pipe: str, label: str) -> Metric:
    return _m(f"sm__inst_executed_pipe_{pipe}.sum", f"{label} Instructions", "inst",
              lambda c: pipe_executed(c, pipe), f"Warp instructions that the {label} pipe executed.",
              _DIVIDED if pipe in ("fmaheavy", "alu", "fp16") else "")  # fmt: skip


def _pipe_share(pipe: str, label: str, span: str, of: str) -> Metric:
    return _m(f"sm__inst_executed_pipe_{pipe}{span}", label, "%", lambda c: pipe_demand(c, pipe, span),
              f"Instructions of the {label} pipe in percent of its issue rate over {of}.")  # fmt: skip


def _tensor_count(kind: str, label: str) -> Metric:
    return _m(f"sm__inst_executed_pipe_tensor_op_{kind}.sum", f"{label} Instructions", "inst",
              lambda c: tensor_executed(c, kind), f"{kind.upper()} warp instructions.")  # fmt: skip


def _tensor_share(name: str, kind: str, label: str, span: str, of: str) -> Metric:
    return _m(f"{name}{span}", label, "%", lambda c: tensor_demand(c, kind, span),
              f"Cycles that {kind.upper()} instructions keep the tensor pipe, in percent of {of}.")  # fmt: skip


def _by_pipe() -> Iterator[Metric]:
    for pipe, label in INSTRUCTION_PIPES.items():
        yield _pipe_count(pipe, label)
    for kind, (label, _) in TENSOR_CLASSES.items():
        yield _tensor_count(kind, label)
    for span, of in _SPANS:
        for pipe, label in CYCLE_PIPES.items():
            yield _pipe_cycles(pipe, label, span, of)
        for kind, (label, _) in TENSOR_CLASSES.items():
            yield _tensor_share(f"sm__pipe_tensor_op_{kind}_cycles_active", kind, label, span, of)
        for pipe, label in INSTRUCTION_PIPES.items():
            yield _pipe_share(pipe, label, span, of)
        for kind, (label, _) in TENSOR_CLASSES.items():
            yield _tensor_share(f"sm__inst_executed_pipe_tensor_op_{kind}", kind, label, span, of)


METRICS = (
    _m("sm__inst_executed.avg.per_cycle_elapsed", "Executed Ipc Elapsed", "inst/cycle",
       lambda c: ratio(c.executed, c.elapsed_sm), "Warp instructions an SM executed a cycle, over the elapsed time."),
    _m(f"sm__instruction_throughput{ELAPSED}", "SM Busy", "%",
       lambda c: busiest(SM_PARTS.values(), c, c.elapsed_subcore),
       "The busiest pipe or the issue slots, in percent of its peak over the elapsed time."),
    _m("sm__inst_executed.avg.per_cycle_active", "Executed Ipc Active", "inst/cycle",
       lambda c: ratio(c.executed, c.active), "Warp instructions an SM executed a cycle, while it had warps."),
    _m(f"sm__inst_issued{ELAPSED}", "Issue Slots Busy", "%", lambda c: percent(c.issue_cycles, c.elapsed_subcore),
       "Issue slots used, over the elapsed time."),
    _m("sm__inst_issued.avg.per_cycle_active", "Issued Ipc Active", "inst/cycle",
       lambda c: ratio(c.issued, c.active), "Warp instructions an SM issued a cycle, while it had warps."),
    _m("sm__inst_issued.max.pct_of_peak_sustained_elapsed", "Max. Issued Slots Busy", "%",
       lambda c: percent(c.sm_max(Sm.ISSUE_ACTIVE), c.elapsed * c.subcores), "Issue slots used on the busiest SM."),
    _m(f"sm__inst_executed{ELAPSED}", "SM: Inst Executed", "%", lambda c: percent(c.executed, c.elapsed_subcore),
       "Instructions executed in percent of one a sub-core and cycle."),
    _m(f"sm__issue_active{ELAPSED}", "SM: Issue Active", "%", lambda c: percent(c.issue_cycles, c.elapsed_subcore),
       "Issue slots used, over the elapsed time."),
    *_by_pipe(),
)  # fmt: skip
