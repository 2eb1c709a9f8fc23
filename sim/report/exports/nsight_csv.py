"""Metrics as `ncu --csv --page raw --print-units base` prints them, so that scripts made for the profiler read them.

A line of column names, a line of units, then a line a launch, everything quoted: ten
columns that tell the launch, compute capability, and the metrics by name, sorted.
Numbers have no thousands separators, as `ncu` prints them in the C locale, and floats
all their digits; a metric without a value is `n/a`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sim.report.metric import Value
from sim.report.metrics import TABLE

if TYPE_CHECKING:
    from sim.report.report import Report

LAUNCH_COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC",
)  # fmt: skip
CONTEXT, DEFAULT_STREAM = "1", "7"  #: as Nsight Compute numbers a program's first context and its default stream


def raw_page(reports: Sequence[Report]) -> str:
    """The table of some launches, numbered in their order."""
    names = sorted(TABLE)
    text = io.StringIO()
    table = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    table.writerow([*LAUNCH_COLUMNS, *names])
    table.writerow([*("" for _ in LAUNCH_COLUMNS), *(TABLE[name].unit for name in names)])
    for number, report in enumerate(reports):
        table.writerow([*_launch(number, report), *(_text(report.values[name]) for name in names)])
    return text.getvalue()


def _launch(number: int, report: Report) -> list[str]:
    header = report.header
    block, grid = (f"({', '.join(map(str, dims))})" for dims in (header.block, header.grid))
    return [
        str(number), "1", "tailwave", "127.0.0.1", header.kernel, CONTEXT, DEFAULT_STREAM, block, grid, "0",
        header.compute_capability,
    ]  # fmt: skip


def _text(value: Value) -> str:
    return "n/a" if math.isnan(value) else str(value)
