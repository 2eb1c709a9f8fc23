"""TMA, tensor cores and epilogues of an SM over time, and how full its tensor pipe is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.plot.blocks import places_of
from sim.plot.figure import BLUE, ORANGE, SKY, draw_legend, headline, new_figure, subject, tidy
from sim.report.formatting import percent_text
from sim.report.pipeline import at_once, tensor_cores_active
from sim.timeline import TimelineError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sim.report import Report

ROW_INCHES = 0.35
BINS = 200  #: of the curve below
COLORS = {"tma": SKY, "tensor": BLUE, "epilogue": ORANGE}
NAMES = {"tma": "TMA copies under way", "tensor": "product in the tensor cores", "epilogue": "epilogue"}


def draw_pipeline(report: Report, sm: int | None = None, cycles: tuple[int, int] | None = None) -> Figure:
    """When TMA, the tensor cores and the epilogue of each warpgroup of an SM were busy.

    How to read it: time runs from left to right, a row is a warpgroup. Blue is its product in the tensor
    cores, orange its epilogue: from the end of a product to the last store of the tile. The top row shows
    when TMA has copies under way; the curve at the bottom is how busy the tensor cores are. Orange with no blue
    above or below it is time in which the tensor cores idle: in `basic` and cooperative GEMMs all
    warpgroups store at once; in ping-pong the blue of one lies over the orange of the other. Blue with
    gaps while TMA is busy throughout waits for data instead.

    `sm` is one of the recorded ones, the first without it; `cycles` the span shown, from launch, all of
    it without. The launch must have been simulated with `timeline=`; raises `TimelineError` if not, or
    if the SM had neither warpgroup products nor TMA copies.
    """
    sm = report.recorded.sms[0] if sm is None else sm
    first, last = (0, report.cycles) if cycles is None else cycles
    table = report.pipeline()
    table = table[table["sm"] == sm]
    if table.empty or not 0 <= first < last <= report.cycles:
        raise TimelineError(
            f"{report.header.kernel}: sm={sm}, cycles={first, last} of {report.cycles}: no warpgroup products or "
            f"TMA copies to show; recorded are SM {report.recorded.sms}"
        )
    rows = _rows(report, table)
    names = dict(sorted(zip(rows, _labels(rows), strict=True)))
    inches = ROW_INCHES * len(names)
    figure = new_figure(inches + 1.9)
    axes, curve = figure.subplots(2, 1, sharex=True, height_ratios=(inches, 1))
    _draw_spans(axes, table, [list(names).index(row) for row in rows])
    axes.set_yticks(range(len(names)), names.values(), fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    _draw_utilization(curve, report, sm, (first, last))
    headline(figure, subject(report), _note(report, table, sm, (first, last)))
    draw_legend(figure, {NAMES[unit]: COLORS[unit] for unit in COLORS if (table["unit"] == unit).any()})
    return figure


def _rows(report: Report, table: pd.DataFrame) -> list[tuple[int, int]]:
    """The row of each span: block's place on the SM and warpgroup; (-1, -1) of TMA."""
    place = places_of(report.content.block_times)[table["block"]]
    by_tma = (table["unit"] == "tma").tolist()
    pairs = zip(place.tolist(), table["warpgroup"].tolist(), strict=True)
    return [(-1, -1) if tma else pair for tma, pair in zip(by_tma, pairs, strict=True)]


def _labels(rows: list[tuple[int, int]]) -> list[str]:
    several = max(place for place, _ in rows) > 0
    return ["TMA" if place < 0 else f"{f'block {place}, ' * several}warpgroup {k}" for place, k in rows]


def _draw_spans(axes: Axes, table: pd.DataFrame, rows: list[int]) -> None:
    from matplotlib.collections import PolyCollection

    start, end, row = table["start"].to_numpy(), table["end"].to_numpy(), np.array(rows)
    low, high = row - 0.4, row + 0.4
    corners = np.stack([start, low, end, low, end, high, start, high], axis=1).reshape(-1, 4, 2)
    faces = [COLORS[unit] for unit in table["unit"]]
    axes.add_collection(PolyCollection(list(corners), facecolors=faces, linewidths=0))


def _draw_utilization(axes: Axes, report: Report, sm: int, span: tuple[int, int]) -> None:
    """How busy the tensor cores are, and the mean of the span as a line."""
    table = report.tensor_utilization(max(1, (span[1] - span[0]) // BINS))
    table = table[table["sm"] == sm]
    edges = [*table["start"], table["end"].iloc[-1]]
    axes.stairs(100 * table["utilization"], edges, fill=True, color=BLUE)
    axes.set_xlim(*span)
    axes.set_ylim(0, 100)
    axes.set_yticks((0, 50, 100))
    axes.set_ylabel("tensor cores\nbusy (%)", fontsize=8)
    axes.set_xlabel("cycles from launch", fontsize=9)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(labelsize=8)
    tidy(axes, axis="y")


def _note(report: Report, table: pd.DataFrame, sm: int, span: tuple[int, int]) -> str:
    """How busy the tensor cores were, and for how long they idled under an epilogue."""
    shown = slice(*span)
    active = tensor_cores_active(report, sm)[shown]
    stores = table[table["unit"] == "epilogue"]
    storing = at_once(stores["start"].to_numpy(), stores["end"].to_numpy(), report.cycles)[shown] > 0
    idle = active == 0
    return (
        f"SM {sm}, cycles {span[0]:,} to {span[1]:,}: the tensor cores are busy for "
        f"{percent_text(100 * active.mean() / report.profile.core.subcores)} of the time, and idle for "
        f"{int(idle.sum()):,} cycles, {int((idle & storing).sum()):,} of them during an epilogue"
    )
