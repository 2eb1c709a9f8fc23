"""Simulated launches against the card's: cycles, counters with the rule that each must keep, the top stall reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.counters import Stall
from sim.report.stalls import ratio_name
from validation.suite import CYCLES, INSTRUCTIONS, Case

if TYPE_CHECKING:
    import pandas as pd

Counters = Mapping[str, float]

EQUAL, NEAR, DIFFERS, TOO_FEW = "equal", "near", "differs", ""
FEW = 10_000  #: sectors of L2 and DRAM up to which they are not compared: the card's own traffic counts too

_GLOBAL, _SHARED = "pipe_lsu_mem_global_op_{}", "pipe_lsu_mem_shared_op_{}"


def _by_op(pattern: str) -> list[str]:
    return [pattern.format(op) for op in ("ld", "st")]


@dataclass(frozen=True)
class Rule:
    """When a simulated counter passes for the card's."""

    counter: str
    relative: float = 0.0  #: difference allowed, as a part of the card's
    points: float = 0.0  #: difference allowed, in percent of the card's `of`
    of: str = ""  #: what points are of
    few: int = 0  #: not compared where neither is larger

    def verdict(self, simulated: Counters, card: Counters) -> str:
        """`equal`, `near` (within what is allowed), `differs`, or nothing where there is too little to compare."""
        ours, theirs = simulated[self.counter], card[self.counter]
        if max(ours, theirs) < self.few:
            return TOO_FEW
        if math.isclose(ours, theirs, abs_tol=0.01, rel_tol=0):
            return EQUAL
        allowed = self.relative * theirs + self.points / 100 * (card[self.of] if self.of else 0)
        return NEAR if abs(ours - theirs) <= allowed else DIFFERS


_LOAD_SECTORS = f"l1tex__t_sectors_{_GLOBAL.format('ld')}"

RULES = (
    Rule(INSTRUCTIONS, relative=0.001),
    Rule("smsp__thread_inst_executed.sum", relative=0.001),
    *(Rule(name) for name in _by_op(f"l1tex__t_requests_{_GLOBAL}.sum")),
    *(Rule(name) for name in _by_op(f"l1tex__t_sectors_{_GLOBAL}.sum")),
    *(Rule(name) for name in _by_op(f"l1tex__data_pipe_lsu_wavefronts{_SHARED.removeprefix('pipe_lsu')}.sum")),
    *(Rule(name) for name in _by_op(f"l1tex__data_bank_conflicts_{_SHARED}.sum")),
    Rule(f"{_LOAD_SECTORS}_lookup_hit.sum", points=2, of=f"{_LOAD_SECTORS}.sum"),
    Rule("lts__t_sectors_srcunit_tex.sum", relative=0.1, few=FEW),
    Rule("lts__t_sectors_op_read.sum", relative=0.1, few=FEW),
    Rule("lts__t_sectors_op_write.sum", relative=0.1, few=FEW),
    Rule("dram__sectors_read.sum", relative=0.1, few=FEW),
    Rule("dram__sectors_write.sum", relative=0.1, few=FEW),
)
#: stall reasons by the metric that says how many warps were in it; a warp that issues waits for nothing
STALLS = {ratio_name(reason): reason.name.lower() for reason in Stall if reason is not Stall.SELECTED}
METRICS = (*(rule.counter for rule in RULES), *STALLS)  #: what a simulated launch must tell besides its cycles


def top_stall(counters: Counters) -> str:
    """The reason that most warps waited for."""
    return STALLS[max(STALLS, key=lambda name: counters.get(name, 0))]


def comparison(cases: Sequence[Case], simulated: pd.DataFrame, card: Mapping[int, Counters]) -> pd.DataFrame:
    """A row a launch, of those simulated, in the order of `cases`.

    `simulated` has columns `label`, `cycles` and `METRICS`. A row holds the launch and its class, cycles of
    both and their ratio, both top stall reasons, and for each counter the card's, the simulated, and the verdict.
    """
    import pandas as pd

    ours = {row["label"]: row for row in simulated.to_dict("records")}
    return pd.DataFrame([_row(case, ours[case.label], card[case.id]) for case in cases if case.label in ours])


def _row(case: Case, simulated: Mapping[str, Any], card: Counters) -> dict[str, Any]:
    row: dict[str, Any] = {
        "launch": case.label,
        "class": case.group,
        "card_cycles": card[CYCLES],
        "cycles": simulated["cycles"],
        "ratio": simulated["cycles"] / card[CYCLES],
        "card_top_stall": top_stall(card),
        "top_stall": top_stall(simulated),
    }
    for rule in RULES:
        row[f"card {rule.counter}"] = card[rule.counter]
        row[rule.counter] = simulated[rule.counter]
        row[f"verdict {rule.counter}"] = rule.verdict(simulated, card)
    return row


def differing(row: Mapping[str, Any]) -> list[str]:
    """The counters of a row that break their rule."""
    return [rule.counter for rule in RULES if row[f"verdict {rule.counter}"] == DIFFERS]


@dataclass(frozen=True)
class Summary:
    """How the launches of a class, or all, compare."""

    name: str
    launches: int
    mean_error: float  #: of cycles, absolute
    worst: float  #: of the launch farthest off: simulated over the card's cycles, less one
    worst_launch: str
    differing: int  #: launches of which a counter breaks its rule
    same_stall: float  #: part of the launches whose top stall reason is the card's


def summaries(table: pd.DataFrame) -> list[Summary]:
    """One for each class, in order of first launch, and one for all."""
    groups = [(name, table[table["class"] == name]) for name in dict.fromkeys(table["class"])]
    return [_summary(name, group) for name, group in [*groups, ("all", table)]]


def _summary(name: str, group: pd.DataFrame) -> Summary:
    errors = group["ratio"] - 1
    worst = errors.abs().idxmax()
    return Summary(
        name=name,
        launches=len(group),
        mean_error=float(errors.abs().mean()),
        worst=float(errors[worst]),
        worst_launch=str(group["launch"][worst]),
        differing=sum(bool(differing(row)) for row in group.to_dict("records")),
        same_stall=float((group["top_stall"] == group["card_top_stall"]).mean()),
    )


def correlation(ratios: Iterable[tuple[float, float]]) -> float:
    """Pearson's, of the logarithms of pairs."""
    xs, ys = zip(*((math.log(a), math.log(b)) for a, b in ratios), strict=True)
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    spread = math.sqrt(sum((a - x) ** 2 for a in xs) * sum((b - y) ** 2 for b in ys))
    return covariance / spread if spread else math.nan
