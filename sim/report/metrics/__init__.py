"""The one table of metrics: every name that a report can be asked for."""

from __future__ import annotations

import difflib

from sim.report.metric import Metric
from sim.report.metrics import compute, distribution, launch, memory, source, speed, warps
from sim.report.metrics.absent import ABSENT, why_absent
from sim.report.metrics.speed import BREAKDOWNS

__all__ = ["ABSENT", "BREAKDOWNS", "METRICS", "TABLE", "Metric", "unknown_metric", "why_absent"]

METRICS: tuple[Metric, ...] = (
    *speed.METRICS,
    *compute.METRICS,
    *memory.METRICS,
    *warps.METRICS,
    *launch.METRICS,
    *source.METRICS,
    *distribution.METRICS,
)

TABLE: dict[str, Metric] = {metric.name: metric for metric in METRICS}
if len(TABLE) != len(METRICS):
    names = [metric.name for metric in METRICS]
    raise AssertionError(f"metrics defined twice: {sorted({n for n in names if names.count(n) > 1})}")


def unknown_metric(name: object) -> KeyError:
    """The error for a name that is not in the table, with close matches or the reason."""
    if not isinstance(name, str):
        return KeyError(f"a metric's name is a string, not {name!r}")
    reason = why_absent(name)
    if reason:
        return KeyError(f"no metric {name!r}: {reason}")
    close = (
        difflib.get_close_matches(name, TABLE, n=3, cutoff=0.6) or [n for n in TABLE if name.lower() in n.lower()][:3]
    )
    hint = f"; did you mean {', '.join(map(repr, close))}?" if close else "; docs/metrics.md lists all"
    return KeyError(f"no metric {name!r}{hint}")
