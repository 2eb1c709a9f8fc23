"""Verdicts on counters, and what a table says of a class."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from sim.report.metrics import TABLE
from validation.compare import (
    DIFFERS,
    EQUAL,
    METRICS,
    NEAR,
    RULES,
    TOO_FEW,
    Rule,
    comparison,
    correlation,
    differing,
    summaries,
    top_stall,
)
from validation.suite import CLASS_OF, CYCLES, Case, all_cases

STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


def verdict(rule: Rule, simulated: float, card: float, of: float = 0) -> str:
    return rule.verdict({rule.counter: simulated}, {rule.counter: card, "of": of})


def test_a_count_is_equal_near_or_differs() -> None:
    exact, loose = Rule("x"), Rule("x", relative=0.1)
    assert [verdict(exact, v, 1000) for v in (1000, 1001)] == [EQUAL, DIFFERS]
    assert [verdict(loose, v, 1000) for v in (1000, 1100, 901, 899)] == [EQUAL, NEAR, NEAR, DIFFERS]


def test_points_are_of_another_counter() -> None:
    rule = Rule("hits", points=2, of="of")
    assert [verdict(rule, v, 100, of=1000) for v in (120, 121)] == [NEAR, DIFFERS]


def test_little_traffic_is_not_compared() -> None:
    rule = Rule("x", relative=0.1, few=10_000)
    assert [verdict(rule, *pair) for pair in ((0, 9_000), (20_000, 9_000), (0, 20_000))] == [TOO_FEW, DIFFERS, DIFFERS]


def test_every_metric_is_one_of_the_reports() -> None:
    assert set(METRICS) <= TABLE.keys()


def test_every_case_has_a_class() -> None:
    assert {case.name for case in all_cases()} == CLASS_OF.keys()


def test_a_warp_that_issues_waits_for_nothing() -> None:
    assert top_stall({STALLED.format("selected"): 9, STALLED.format("wait"): 2, STALLED.format("barrier"): 1}) == "wait"


def some(count: int) -> list[Case]:
    return [case for case in all_cases() if case.name in ("copy1", "spin")][:count]


def table(cases: list[Case], cycles: list[float]) -> pd.DataFrame:
    """What a comparison makes of simulated launches where the card counted 100 of everything."""
    card = {case.id: dict.fromkeys((CYCLES, *METRICS), 100.0) for case in all_cases()}
    ours = [
        {"label": case.label, "cycles": n, **dict.fromkeys(METRICS, 100.0)}
        for case, n in zip(cases, cycles, strict=True)
    ]
    ours[-1]["smsp__inst_executed.sum"] = 101.0
    return comparison(all_cases(), pd.DataFrame(ours), card)


def test_a_row_holds_both_sides_and_the_verdicts() -> None:
    made = table(some(2), [100, 150]).to_dict("records")
    assert [row["ratio"] for row in made] == [1.0, 1.5]
    assert [differing(row) for row in made] == [[], ["smsp__inst_executed.sum"]]
    assert len(made[0]) == 7 + 3 * len(RULES)


def test_a_class_has_its_mean_and_its_farthest_launch() -> None:
    cases = some(12)
    lines = summaries(table(cases, [90, 120, *[100] * (len(cases) - 2)]))
    assert lines[-1].name == "all" and lines[-1].launches == len(cases)
    streaming = lines[0]
    assert (streaming.name, streaming.worst_launch) == ("streaming", cases[1].label)
    assert streaming.mean_error == pytest.approx(0.3 / streaming.launches)
    assert streaming.worst == pytest.approx(0.2)
    assert sum(line.differing for line in lines[:-1]) == lines[-1].differing == 1


def test_correlation_is_of_logarithms() -> None:
    assert correlation((10.0**k, 3 * 100.0**k) for k in range(4)) == pytest.approx(1)
    assert math.isnan(correlation([(1.0, 2.0)]))
