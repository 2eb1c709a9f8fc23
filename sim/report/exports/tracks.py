"""What happened when, as tracks of spans that do not overlap: what a trace file and an interactive page are made of."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.counters import Stall, Track
from sim.report.stalls import REASONS
from sim.timeline import ACTIVE

if TYPE_CHECKING:
    from sim.report.report import Report
    from sim.timeline import Timeline

Int64s = npt.NDArray[np.int64]
STATE_NAMES = (*(REASONS[reason].label.removeprefix("Stall ") for reason in Stall), "In flight", "Block")
STATE_MEANINGS = (
    *(REASONS[reason].meaning for reason in Stall), "waits for data from L2 or DRAM", "a resident block",
)  # fmt: skip
BLOCK = ACTIVE + 1  #: the state of a block's span
LANE_NAMES = {
    Track.TENSOR: "tensor cores",
    Track.TMA: "TMA copies",
    Track.COPY: "asynchronous copies",
    Track.LOAD: "loads",
}


@dataclass(frozen=True)
class Spans:
    """Spans of one track, by start; each array has an entry a span."""

    sm: int
    kind: str  #: "blocks", "warps", "loads" or "asynchronous copies"
    lane: int  #: the warp slot, or which of the lanes that hold what overlaps
    start: Int64s
    end: Int64s
    state: Int64s  #: index of `STATE_NAMES`
    block: Int64s
    warp: Int64s  #: -1 for a block
    pc: Int64s  #: -1 for a block
    active: Int64s  #: mask of lanes, 0 while nothing issues
    on: Int64s

    @property
    def name(self) -> str:
        return f"warp slot {self.lane:02}" if self.kind == "warps" else f"{self.kind} {self.lane:02}"


def tracks_of(report: Report) -> list[Spans]:
    """All tracks of a report: blocks of every SM that had one; of SMs recorded over time also copies, loads, warps."""
    tracks = list(_blocks(report))
    if report.has_timeline:
        tracks += _recorded(report.recorded)
    order = {kind: k for k, kind in enumerate(("blocks", *LANE_NAMES.values(), "warps"))}
    return sorted(tracks, key=lambda track: (track.sm, order[track.kind], track.lane))


def lanes_of(start: Iterable[int], end: Iterable[int]) -> Int64s:
    """For intervals by start: the lowest lane that is free then, so that no two in a lane overlap."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    lanes = []
    for first, last in zip(start, end, strict=True):
        while busy and busy[0][0] <= first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (last, lane))
        lanes.append(lane)
    return np.array(lanes, np.int64)


def _blocks(report: Report) -> Iterator[Spans]:
    """The blocks of each SM, in as many lanes as it had blocks at a time. Those that were not executed have no time."""
    sm, start, end = report.content.block_times.T
    for m in np.unique(sm).tolist():
        ids = np.flatnonzero((sm == m) & (end > start))
        ids = ids[np.argsort(start[ids], kind="stable")]
        lanes = lanes_of(start[ids].tolist(), end[ids].tolist())
        for lane in np.unique(lanes).tolist():
            chosen = ids[lanes == lane]
            none = np.full(len(chosen), -1)
            zero = np.zeros(len(chosen), np.int64)
            yield Spans(m, "blocks", lane, start[chosen], end[chosen], zero + BLOCK, chosen, none, none, zero, zero)


def _recorded(timeline: Timeline) -> Iterator[Spans]:
    """Warps by slot; loads and copies, which overlap, in lanes."""
    c = {name: values.astype(np.int64) for name, values in timeline.columns.items()}
    for m in timeline.sms:
        for track in Track:
            rows = np.flatnonzero((c["sm"] == m) & (c["track"] == track))
            rows = rows[np.argsort(c["start"][rows], kind="stable")]
            is_warp = track is Track.WARP
            lanes = c["slot"][rows] if is_warp else lanes_of(c["start"][rows].tolist(), c["end"][rows].tolist())
            for lane in np.unique(lanes).tolist():
                chosen = rows[lanes == lane]
                names = ("start", "end", "state", "block", "warp", "pc", "active", "on")
                yield Spans(m, "warps" if is_warp else LANE_NAMES[track], lane, *(c[name][chosen] for name in names))
