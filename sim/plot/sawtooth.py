"""The sawtooth: throughput of a tiled matrix product against its size, with what makes the teeth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.plot.figure import BLUE, GREEN, INK, ORANGE, PURPLE, new_figure
from sim.report.formatting import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Band:
    """Sizes whose rows start at multiples of `elements` elements and no better."""

    elements: int
    label: str
    marker: str
    color: str

    def holds(self, n: int) -> bool:
        return math.gcd(n, 8) == self.elements


BANDS = (
    Band(8, "multiple of 8", "o", BLUE),
    Band(4, "multiple of 4", "s", GREEN),
    Band(2, "multiple of 2", "^", ORANGE),
    Band(1, "odd", "D", PURPLE),
)


def draw_sawtooth(frame: pd.DataFrame, tile: tuple[int, int], title: str) -> Figure:
    """A figure of a sweep over square sizes.

    `frame` has columns `n`, `tflops`, `tiles`, `waves`, `tail_blocks` and
    `tail_utilization`; `tile` is the rows and columns of the output that a block
    computes. Dashed lines stand where one more tile opens another wave; the sizes
    nearest to such a step are told above the picture.
    """
    data = frame.sort_values("n")
    figure = new_figure(8.0, 9.0)
    axes = figure.subplots(4, 1, sharex=True, height_ratios=(3, 1, 1, 1))
    speed, tiles, waves, tail = axes
    _draw_speed(speed, data)
    cliff = cliff_text(data)
    speed.set_title(title, loc="left", pad=22 if cliff else 6)
    speed.annotate(cliff, (0, 1), (0, 7), xycoords="axes fraction", textcoords="offset points", color=INK)
    tiles.plot(data["n"], data["tiles"], ".-", color=BLUE, linewidth=1)
    tiles.set_ylabel("tiles")
    waves.step(data["n"], data["waves"], where="post", color=BLUE, linewidth=1)
    waves.plot(data["n"], data["waves"], ".", color=BLUE)
    waves.set_ylabel("waves")
    waves.set_yticks(range(int(data["waves"].max()) + 1))
    waves.set_ylim(0, data["waves"].max() + 0.5)
    tail.plot(data["n"], 100 * data["tail_utilization"], ".-", color=BLUE, linewidth=1)
    tail.set_ylabel("last wave\nfilled (%)")
    tail.set_ylim(0, 105)
    tail.set_xlabel("N (square matrices, N x N times N x N)")
    boundaries = wave_boundaries(data, tile)
    for boundary in boundaries:
        for axis in axes:
            axis.axvline(boundary, color=INK, linestyle="--", linewidth=0.8, zorder=0)
    _name_waves(speed, boundaries, int(data["n"].min()), int(data["n"].max()))
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e5e5e5", linewidth=0.6, zorder=0)
        axis.set_axisbelow(True)
    figure.align_ylabels(axes)
    return figure


def cliff_text(data: Any) -> str:
    """What happens between the two nearest sizes of which one has a wave more; empty if all have as many."""
    points = data.to_dict("records")
    steps = [(after["n"] - before["n"], before, after) for before, after in pairwise(points)]
    steps = [step for step in steps if step[1]["waves"] < step[2]["waves"]]
    if not steps:
        return ""
    _, before, after = min(steps, key=lambda step: step[0])
    places = round(after["tail_blocks"] / after["tail_utilization"])
    return (
        f"N={before['n']}: {counted(before['tiles'], 'tile')}, {counted(before['waves'], 'wave')}.  "
        f"N={after['n']}: {counted(after['tiles'], 'tile')}, {counted(after['waves'], 'wave')}, "
        f"{after['tail_blocks']} of {places} places of the last one filled."
    )


def _name_waves(axis: Axes, boundaries: dict[int, int], first: int, last: int) -> None:
    """The number of waves, written between the boundaries."""
    if not boundaries:
        return
    edges = [first, *boundaries, last]
    counts = [next(iter(boundaries.values())) - 1, *boundaries.values()]
    for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
        wide = right - left > (last - first) / 12
        text = counted(count, "wave") if wide else str(count)
        axis.annotate(text, ((left + right) / 2, 0.01), xycoords=("data", "axes fraction"), ha="center", color=INK)


def _draw_speed(axis: Axes, data: Any) -> None:
    """TFLOP/s, a line through the sizes of each alignment: a strong one where rows are wholly aligned."""
    for band in BANDS:
        of_band = data[[band.holds(int(n)) for n in data["n"]]]
        if len(of_band):
            aligned = band.elements == 8
            axis.plot(
                of_band["n"],
                of_band["tflops"],
                linestyle="-" if aligned else ":",
                linewidth=1.2 if aligned else 0.9,
                marker=band.marker,
                markersize=5,
                color=band.color,
                label=band.label,
            )
    axis.set_ylabel("TFLOP/s")
    axis.legend(title="N is", frameon=False, loc="upper left", fontsize="small", title_fontsize="small")


def wave_boundaries(frame: pd.DataFrame, tile: tuple[int, int]) -> dict[int, int]:
    """Smallest sizes, within the range of `frame`, whose tiles open another wave, and which wave it is."""
    if frame.empty:
        return {}
    first = frame.iloc[0]
    blocks_a_wave = round(first["tail_blocks"] / first["tail_utilization"])
    sizes = np.arange(int(frame["n"].min()), int(frame["n"].max()) + 1)
    waves = -(-(-(-sizes // tile[0]) * -(-sizes // tile[1])) // blocks_a_wave)
    opened = np.diff(waves, prepend=waves[0]) > 0
    return {int(n): int(wave) for n, wave in zip(sizes[opened], waves[opened], strict=True)}
