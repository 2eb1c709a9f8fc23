"""The correlation plot: axes that hold every point, a look of its own for each class."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sim.plot.correlation import COLORS, draw_correlation, style
from sim.plot.figure import save_figure


def frame() -> pd.DataFrame:
    return pd.DataFrame({"class": ["a", "b", "a"], "card_cycles": [5e3, 1e5, 2e4], "cycles": [6e3, 0.9e5, 1e6]})


def test_fourteen_classes_look_different() -> None:
    looks = {(look["color"], look["marker"], look["facecolors"]) for look in map(style, range(14))}
    assert len(looks) == 14
    assert len({style(i)["marker"] for i in range(len(COLORS))}) == len(COLORS)


def test_both_axes_are_logarithmic_and_hold_every_point() -> None:
    axes = draw_correlation(frame(), "title", "note").axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    low, high = axes.get_xlim()
    assert axes.get_ylim() == (low, high)
    assert low < 5e3 and high > 1e6
    assert sum(len(points.get_offsets()) for points in axes.collections if points.get_label() in "ab") == 3


def test_it_becomes_a_file(tmp_path: Path) -> None:
    assert save_figure(draw_correlation(frame(), "title"), tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
