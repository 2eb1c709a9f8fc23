"""Simulated against measured cycles, one point a launch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sim.plot.figure import BLACK, BLUE, GREEN, INK, ORANGE, PURPLE, RED, SKY, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK)
MARKERS = "os^DvPX"  #: filled for the first classes, the same hollow for further ones
BAND = 0.25


def style(index: int) -> dict[str, Any]:
    """Colour and marker of the class in this place: no two alike up to 14, and a marker tells what a colour does."""
    color = COLORS[index % len(COLORS)]
    hollow = index // len(COLORS) % 2 == 1
    return {
        "color": color,
        "marker": MARKERS[(index + 3 * hollow) % len(MARKERS)],
        "facecolors": "none" if hollow else color,
        "linewidths": 1.2 if hollow else 0.4,
        "edgecolors": color if hollow else "white",
    }


def draw_correlation(table: pd.DataFrame, title: str, note: str = "") -> Figure:
    """A figure with logarithmic axes; the band is 25 % to either side of equal.

    `table` has columns `class`, `card_cycles` and `cycles`.
    """
    figure = new_figure(6.6, 8.2)
    axes = figure.subplots()
    both = [*table["card_cycles"], *table["cycles"]]
    ends = [10 ** (math.log10(min(both)) - 0.1), 10 ** (math.log10(max(both)) + 0.1)]
    low, high = ([(1 + side * BAND) * end for end in ends] for side in (-1, 1))
    axes.fill_between(ends, low, high, color="#eeeeee", linewidth=0, zorder=0, label=f"within {BAND:.0%}")
    axes.plot(ends, ends, color=INK, linewidth=0.8, zorder=1, label="equal")
    for index, name in enumerate(dict.fromkeys(table["class"])):
        group = table[table["class"] == name]
        look = style(index)
        look.pop("color")
        axes.scatter(group["card_cycles"], group["cycles"], s=34, zorder=2, label=name, **look)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_aspect("equal")
    axes.set_xlabel("cycles, measured")
    axes.set_ylabel("cycles, simulated")
    axes.set_title(title, loc="left", pad=22 if note else 6)
    axes.annotate(note, (0, 1), (0, 7), xycoords="axes fraction", textcoords="offset points", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e5e5e5", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    figure.legend(loc="outside right center", frameon=False, fontsize="small")
    return figure
