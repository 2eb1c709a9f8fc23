"""What a report holds: every figure, table and sentence of it as plain values, ready to show or save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.counters import LaunchResult
from sim.launch import Dim3
from sim.occupancy import Occupancy
from sim.profile import Profile
from sim.report.advice import advise
from sim.report.counts import Counts
from sim.report.formatting import percent_text
from sim.report.lines import Columns, instruction_columns, line_columns
from sim.report.metric import Value
from sim.report.metrics import METRICS
from sim.report.verdict import Verdict, judge
from sim.sass.names import plain_name


@dataclass(frozen=True, slots=True)
class Header:
    """What ran, where."""

    kernel: str
    params: tuple[tuple[str, str], ...]  #: a workload's parameters, name and value
    grid: Dim3
    block: Dim3
    profile: str  #: profile name, with overrides
    gpu: str  #: full name
    compute_capability: str
    scheduler: str
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """The kernel line: name, grid x block, GPU."""
        params = ", ".join(f"{name}={value}" for name, value in self.params)
        kernel = f"{self.kernel}({params})" if params else self.kernel
        grid, block = (", ".join(map(str, dims)) for dims in (self.grid, self.block))
        return f"{kernel} ({grid})x({block}), {self.gpu} [{self.profile}], CC {self.compute_capability}"


@dataclass(frozen=True, slots=True)
class Content:
    """A report's values: metrics by name, columns by instruction, block times, what they say."""

    header: Header
    values: Mapping[str, Value]
    instructions: Columns
    block_times: npt.NDArray[np.int64]  #: `[blocks, 3]`: SM, first cycle, last cycle + 1
    verdict: Verdict
    advice: tuple[str, ...]


def content_of(
    result: LaunchResult, profile: Profile, occupancy: Occupancy, params: Mapping[str, Any] | None = None
) -> Content:
    """The content of the report of a launch on a profile, with the occupancy that it ran at."""
    counts = Counts(result, profile, occupancy)
    values = {metric.name: _plain(metric.formula(counts)) for metric in METRICS}
    instructions = instruction_columns(counts)
    header = Header(
        kernel=plain_name(result.program.name),
        params=tuple((name, str(value)) for name, value in (params or {}).items()),
        grid=result.grid,
        block=result.block,
        profile=profile.label,
        gpu=profile.gpu.name,
        compute_capability=profile.gpu.compute_capability,
        scheduler=result.scheduler,
        notes=(*_sampled(counts), *result.notes),
    )
    advice = advise(values, line_columns(instructions), instructions)
    return Content(header, values, instructions, result.blocks, judge(values), advice)


def _sampled(c: Counts) -> tuple[str, ...]:
    """What a reader must know of a launch of which not all was executed."""
    if c.result.sampling is None:
        return ()
    return (
        f"Sampled: {percent_text(100 * c.executed_blocks / c.blocks)} of blocks ran, "
        f"block time spread {percent_text(100 * c.block_time_spread)}",
    )


def _plain(value: Any) -> Value:
    """A Python int or float of a formula's value."""
    return int(value) if isinstance(value, int | np.integer) else float(value)
