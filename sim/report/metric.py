"""What a metric is: one entry of the table that reports, JSON, plots and docs read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sim.report.counts import Counts

Value = int | float  #: NaN where a metric has no meaning, such as the hit rate of no accesses

PREFIX = "tailwave__"  #: begins the names of metrics that Nsight Compute does not have


Formula = Callable[["Counts"], Value]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a name, where it stands on the page, and how it comes from the counts.

    `name` is Nsight Compute's, or begins with `tailwave__`. `unit` is Nsight's
    word: inst, cycle, sector, byte, byte/second, hz, ns, %, or "" for a ratio.
    `note` tells where the model differs from the hardware counter.
    """

    name: str
    label: str
    section: str
    unit: str
    formula: Formula
    meaning: str
    note: str = ""


class MetricFactory(Protocol):
    """Makes metrics of one section."""

    def __call__(self, name: str, label: str, unit: str, formula: Formula, meaning: str, note: str = "") -> Metric: ...


def in_section(section: str) -> MetricFactory:
    """A maker of metrics of one section."""

    def make(name: str, label: str, unit: str, formula: Formula, meaning: str, note: str = "") -> Metric:
        return Metric(name, label, section, unit, formula, meaning, note)

    return make


def ratio(part: Value, whole: Value) -> float:
    """`part / whole`; NaN when there is no whole."""
    return part / whole if whole else math.nan


def percent(part: Value, whole: Value) -> float:
    """`100 * part / whole`; NaN when there is no whole."""
    return 100.0 * part / whole if whole else math.nan
