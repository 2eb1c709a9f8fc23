"""Collects what the core records of its SMs, step by step: rows of a trace, and a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.core import layout
from sim.core.layout import Shared
from sim.counters import Stall, Track
from sim.isa import WARP_SIZE, Col, Op, Space
from sim.program import Program
from sim.timeline import ACTIVE, COLUMNS, Place, Timeline

Int64s = npt.NDArray[np.int64]


def addressed(program: Program) -> npt.NDArray[np.bool_]:
    """Instructions whose addresses are recorded: accesses of anything but the constant banks."""
    code = program.decoded.code
    access = np.isin(code[:, Col.OP], (Op.LD, Op.ST, Op.ATOM, Op.RED, Op.LDSM, Op.STSM, Op.LDGSTS))
    return np.asarray(access & (code[:, Col.SPACE] != Space.CONSTANT))


@dataclass
class Recorder:
    """What is recorded of one launch: `traced` all SMs' instructions, of the SMs `timed` intervals too."""

    program: Program
    traced: bool = False
    timed: tuple[int, ...] = ()
    records: list[tuple[Int64s, Int64s]] = field(default_factory=list)
    """A trace's rows `[n, T_COLUMNS]` as one SM issued them, and addresses `[m, 64]` of those that have any."""
    _intervals: list[Int64s] = field(default_factory=list)  # a step's, with the columns of COLUMNS
    _addresses: list[Int64s] = field(default_factory=list)
    _accesses: int = 0

    @property
    def active(self) -> bool:
        """Whether anything is recorded."""
        return self.traced or bool(self.timed)

    def rooms(self, step_cycles: int, subcores: int, warps: int) -> tuple[int, int]:
        """Trace rows and intervals that an SM with so many warp slots can make in a step, or 1 where it makes none."""
        issued = step_cycles * subcores + 8
        times = warps * (step_cycles + 2) + layout.MAX_ENTRIES + layout.MAX_TRANSFERS + 2 * issued
        return issued if self.active else 1, times if self.timed else 1

    def set_up(self, arrays: np.recarray[Any, Any]) -> None:
        """Tell each SM what to record."""
        arrays.sv[:, layout.SV_RECORD] = layout.RECORD_TRACE if self.traced else layout.RECORD_NOTHING
        arrays.sv[list(self.timed), layout.SV_RECORD] = layout.RECORD_TIMES

    def keep(self, arrays: np.recarray[Any, Any], shared: Shared) -> None:
        """Take what was recorded in the step that has ended."""
        for m in np.flatnonzero(arrays.sv[:, layout.SV_TRACE] + arrays.sv[:, layout.SV_INTERVALS]).tolist():
            n, intervals = arrays.sv[m, [layout.SV_TRACE, layout.SV_INTERVALS]]
            rows = shared.trace[m, :n].copy()
            pcs = rows[:, layout.T_PC]
            kept = self._addressed[pcs] & (rows[:, layout.T_ON] != 0)
            addresses = shared.trace_addr[m, :n][kept]
            addresses[shared.code[pcs[kept], Col.OP] != Op.LDGSTS, WARP_SIZE:] = -1
            if self.traced:
                self.records.append((rows, addresses))
            if intervals:
                self._keep_intervals(m, shared.intervals[m, :intervals], rows, kept)
                self._addresses.append(addresses)
                self._accesses += len(addresses)
            arrays.sv[m, [layout.SV_TRACE, layout.SV_INTERVALS]] = 0

    def _keep_intervals(self, m: int, intervals: Int64s, rows: Int64s, kept: npt.NDArray[np.bool_]) -> None:
        """A step's intervals, with what the trace's rows say of those in which an instruction issued."""
        track, slot, block, warp, state, pc, start, end = intervals.T
        table = np.zeros((len(intervals), len(COLUMNS)), np.int64)
        is_warp = track == Track.WARP
        shown = np.where(is_warp, state, ACTIVE)
        table[:, :9] = np.column_stack([np.full(len(track), m), track, slot, block, warp, start, end, shown, pc])
        table[:, 11] = -1
        issued = np.flatnonzero(is_warp & (state == Stall.SELECTED))  # in the order of the trace's rows
        table[issued, 9] = rows[:, layout.T_ACTIVE]
        table[issued, 10] = rows[:, layout.T_ON]
        table[issued, 11] = np.where(kept, self._accesses + np.cumsum(kept) - 1, -1)
        self._intervals.append(table)

    def timeline(self, begin: int, arrays: Mapping[str, Place]) -> Timeline | None:
        """The timeline of a launch that began at cycle `begin`; None if no SM was timed."""
        if not self.timed:
            return None
        empty = np.zeros((0, len(COLUMNS)), np.int64)
        table = np.concatenate([empty, *self._intervals])
        names = list(COLUMNS)
        order = np.lexsort([table[:, names.index(name)] for name in ("slot", "track", "start", "sm")])
        columns = {name: table[order, k].astype(dtype) for k, (name, dtype) in enumerate(COLUMNS.items())}
        for name in ("start", "end"):
            columns[name] -= begin
        addresses = np.concatenate([np.zeros((0, 2 * WARP_SIZE), np.int64), *self._addresses])
        return Timeline(self.timed, columns, addresses, arrays)

    @cached_property
    def _addressed(self) -> npt.NDArray[np.bool_]:
        return addressed(self.program)
