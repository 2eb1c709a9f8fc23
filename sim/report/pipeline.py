"""When TMA, tensor cores and epilogues of the recorded SMs were busy: a timeline's intervals, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.counters import Stall, Track

if TYPE_CHECKING:
    import pandas as pd

    from sim.report.report import Report

WARPGROUP = 4  #: warps
UNITS = ("tma", "tensor", "epilogue")
STORE_KINDS = ("global_st", "global_red")
STORES_BY_TMA = ("UTMASTG", "UTMAREDG")

Cycles = npt.NDArray[np.int64]


def spans(report: Report) -> pd.DataFrame:
    """See `Report.pipeline`."""
    import pandas as pd

    rows = report.recorded.frame
    events = pd.concat(
        [_of_track(rows, Track.TMA, "tma"), _of_track(rows, Track.TENSOR, "tensor"), _epilogues(report, rows)]
    )
    events["warpgroup"] = events.pop("warp") // WARPGROUP
    events["unit"] = pd.Categorical(events["unit"], UNITS)
    names = ["sm", "unit", "block", "warpgroup"]
    groups = events.groupby(names, observed=True)
    key, start, end = joined(groups.ngroup().to_numpy(), events["start"].to_numpy(), events["end"].to_numpy())
    found = groups.size().reset_index()[names].iloc[key].assign(start=start, end=end)
    return found.sort_values(["sm", "start", "unit"], kind="stable", ignore_index=True)


def utilization(report: Report, step: int) -> pd.DataFrame:
    """See `Report.tensor_utilization`."""
    import pandas as pd

    if step < 1:
        raise ValueError(f"step={step}: must be a positive number of cycles")
    begins = np.arange(0, report.cycles, step)
    ends = np.minimum(begins + step, report.cycles)
    tables = []
    for sm in report.recorded.sms:
        active = np.add.reduceat(tensor_cores_active(report, sm), begins)
        share = active / ((ends - begins) * report.profile.core.subcores)
        tables.append(pd.DataFrame({"sm": sm, "start": begins, "end": ends, "utilization": share}))
    return pd.concat(tables, ignore_index=True)


def tensor_cores_active(report: Report, sm: int) -> Cycles:
    """By cycle from launch, how many of an SM's sub-cores have a warpgroup product in their tensor cores."""
    columns = report.recorded.columns
    rows = (columns["track"] == Track.TENSOR) & (columns["sm"] == sm)
    return at_once(columns["start"][rows], columns["end"][rows], report.cycles)


def at_once(start: Cycles, end: Cycles, cycles: int) -> Cycles:
    """By cycle, how many of the intervals hold it."""
    change = np.bincount(start, minlength=cycles + 1) - np.bincount(end, minlength=cycles + 1)
    return np.cumsum(change)[:cycles]


def joined(key: Cycles, start: Cycles, end: Cycles) -> tuple[Cycles, Cycles, Cycles]:
    """Intervals of the same key that touch or overlap as one: key, start and end of each, in that order."""
    order = np.lexsort((start, key))
    shift = key[order] * (end.max(initial=0) + 1)  # so that those of different keys lie apart
    begin, until = start[order] + shift, np.maximum.accumulate(end[order] + shift)
    first = np.flatnonzero(begin > np.r_[-1, until[:-1]])
    last = np.r_[first[1:] - 1, len(begin) - 1][: len(first)]
    return key[order][first], start[order][first], until[last] - shift[first]


def _of_track(rows: pd.DataFrame, track: Track, unit: str) -> pd.DataFrame:
    mine = rows.loc[rows["track"] == track.name.lower(), ["sm", "block", "warp", "start", "end"]]
    return mine.assign(unit=unit)


def _epilogues(report: Report, rows: pd.DataFrame) -> pd.DataFrame:
    """Of each warp, from the end of a product to the last store before its next one."""
    stores = (rows["track"] == "warp") & (rows["state"] == Stall.SELECTED.name.lower())
    stores &= _is_store(report)[rows["pc"].to_numpy()] & (rows["on"] != 0)
    events = rows[stores | (rows["track"] == "tensor")].sort_values(["sm", "block", "warp", "start"], kind="stable")
    is_store = (events["track"] == "warp").to_numpy()
    same = (events[["sm", "block", "warp"]].diff() == 0).all(axis=1).to_numpy()  # as the row before: one warp
    before = np.r_[False, is_store[:-1]]
    first = np.flatnonzero(is_store & same & ~before)  # stores that follow a product of their warp
    goes_on = is_store & same & before
    stops = np.flatnonzero(~goes_on)  # a run of stores ends where one of these follows
    last = np.r_[stops, len(events)][np.searchsorted(stops, first, side="right")] - 1
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    found = events.iloc[first][["sm", "block", "warp"]]
    return found.assign(start=np.minimum(end[first - 1], start[first]), end=end[last], unit="epilogue")


def _is_store(report: Report) -> npt.NDArray[np.bool_]:
    """Of each instruction, whether it writes to global memory."""
    columns = report.content.instructions
    opcodes = (text.split()[1 if text.startswith("@") else 0] for text in columns["sass"])
    by_tma = [opcode.startswith(STORES_BY_TMA) for opcode in opcodes]
    return np.isin(columns["kind"], STORE_KINDS) | np.array(by_tma, bool)
