"""Compares a simulated launch with the card's counters: what must be equal, what must be near, and cycles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sim
from tests.silicon.cases import Case

CYCLES = "sm__cycles_elapsed.max"
INSTRUCTIONS = "smsp__inst_executed.sum"
THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"

Rule = Callable[[float, float, Case], bool]


#: Kernels whose counts depend on their data, of which the card had another sample of the same distribution.
DATA_DEPENDENT = ("gather", "relu_branch", "div_trip", "hist")


def equal(simulated: float, card: float, case: Case) -> bool:
    """Equal to the digits that the table keeps, cut or rounded; within 1 % where the data decide."""
    if case.name in DATA_DEPENDENT:
        return math.isclose(simulated, card, rel_tol=0.01)
    return abs(simulated - card) < 0.01


def near(simulated: float, card: float, case: Case) -> bool:
    """Within 2 %: a ratio that also depends on how many instructions the compilers made."""
    return math.isclose(simulated, card, rel_tol=0.02)


def passes(op: str) -> Rule:
    """Equal but for passes lost to other traffic: by an eighth of the requests and 1 % of the passes."""

    def rule(simulated: float, card: float, case: Case) -> bool:
        requests = case.counters[f"smsp__inst_executed_op_shared_{op}.sum"]
        all_passes = case.counters[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"]
        return abs(simulated - card) <= math.ceil(requests / 8 + all_passes / 100)

    return rule


#: Counters that the access pattern decides, with the rule that says whether they match.
RULES: dict[str, Rule] = {
    "launch__grid_size": equal,
    "launch__block_size": equal,
    "launch__waves_per_multiprocessor": equal,
    "sm__maximum_warps_per_active_cycle_pct": equal,
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": equal,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": equal,
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": equal,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": equal,
    "smsp__inst_executed_op_shared_ld.sum": equal,
    "smsp__inst_executed_op_shared_st.sum": equal,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": passes("ld"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": passes("st"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": passes("ld"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": passes("st"),
    THREADS: near,
}

_PARTIAL_RESULTS = "nvcc reads the warps' partial results one by one where the builder reads four at a time"
_LANE_ZERO = "nvcc branches around lane 0's stores; the builder guards them, and counts all threads of the warp"

#: (kernel, counter) that differ from the card, with the reason. Closing one means deleting its line.
DEVIATIONS: dict[tuple[str, str], str] = {
    ("softmax_row", "smsp__inst_executed_op_shared_ld.sum"): _PARTIAL_RESULTS,
    ("layernorm_row", THREADS): _LANE_ZERO,
}


@dataclass(frozen=True)
class Comparison:
    """One launch, simulated and measured."""

    case: Case
    counters: dict[str, float]  #: simulated, by Nsight's name

    @property
    def cycle_error(self) -> float:
        """Simulated over measured cycles, less one."""
        return self.counters[CYCLES] / self.case.counters["cycles_median"] - 1

    @property
    def instruction_ratio(self) -> float:
        return self.counters[INSTRUCTIONS] / self.case.counters[INSTRUCTIONS]

    def differing(self) -> list[str]:
        """Counters that break their rule."""
        return [
            name for name, rule in RULES.items() if not rule(self.counters[name], self.case.counters[name], self.case)
        ]


def compare(case: Case, gpu: str = "h200") -> Comparison:
    """Simulate the launch on a fresh device: its caches are cold, as under the profiler."""
    report = sim.simulate(case.launch(), gpu=gpu)
    return Comparison(case, {name: float(report[name]) for name in (CYCLES, INSTRUCTIONS, *RULES)})


def mean_error(comparisons: Iterable[Comparison]) -> float:
    """Mean absolute error of cycles."""
    errors = [abs(c.cycle_error) for c in comparisons]
    return sum(errors) / len(errors)


def table(comparisons: list[Comparison]) -> str:
    """A line a launch, then a line a class."""
    head = f"{'launch':<58}{'card':>10}{'simulated':>11}{'error':>8}{'inst':>7}"
    lines = [f"{head}{'sect/req':>14}{'shared passes':>20}{'threads':>14}  differs in"]
    for c in comparisons:
        card, ours = c.case.counters, c.counters
        lines.append(
            f"{c.case.label[:57]:<58}{card['cycles_median']:>10.0f}{ours[CYCLES]:>11.0f}{c.cycle_error:>+8.1%}"
            f"{c.instruction_ratio:>7.2f}{_pair(_sectors(ours), _sectors(card), '.2f'):>14}"
            f"{_pair(_passes(ours), _passes(card), '.0f'):>20}{_pair(ours[THREADS], card[THREADS], '.2f'):>14}"
            f"  {', '.join(_short(name) for name in c.differing())}"
        )
    lines.append("")
    lines.append(f"{'class':<14}{'launches':>9}{'mean |error|':>14}{'worst':>9}   mean instruction ratio")
    groups: dict[str, list[Comparison]] = {}
    for c in comparisons:
        groups.setdefault(c.case.group, []).append(c)
    for name, members in [*groups.items(), ("all", comparisons)]:
        worst = max((c.cycle_error for c in members), key=abs)
        ratio = sum(c.instruction_ratio for c in members) / len(members)
        lines.append(f"{name:<14}{len(members):>9}{mean_error(members):>14.1%}{worst:>+9.1%}   {ratio:.2f}")
    return "\n".join(lines)


def _pair(ours: float, card: float, spec: str) -> str:
    """`ours/card`, or one figure when they print alike."""
    a, b = format(ours, spec), format(card, spec)
    return a if a == b else f"{a}/{b}"


def _sectors(counters: dict[str, float]) -> float:
    """Sectors a global load request; of stores where there are no loads."""
    for op in ("ld", "st"):
        requests = counters[f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum"]
        if requests:
            return counters[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"] / requests
    return 0.0


def _passes(counters: dict[str, float]) -> float:
    """Shared-memory wavefronts, loads and stores."""
    return sum(counters[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"] for op in ("ld", "st"))


def _short(name: str) -> str:
    """A counter's name without what they all have."""
    for part in ("l1tex__", "smsp__", "sm__", "launch__", "pipe_lsu_", "mem_", "data_", ".sum", ".ratio"):
        name = name.replace(part, "")
    return name
