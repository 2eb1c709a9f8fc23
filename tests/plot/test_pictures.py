"""All pictures of a report: readable at a notebook's width, for colour-blind readers too, explained, and methods."""

from __future__ import annotations

import inspect
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import sim
from sim import plot
from sim.counters import Stall
from sim.plot.figure import DPI, WIDTH, headline, new_figure
from sim.report.stalls import COLOURS
from sim.timeline import TimelineError
from tests.core.launches import small
from tests.plot.pictures import outside, overlaps
from workloads import divergence, gemm, matmul, memory, tensor

REPORTS = {
    "tiled": lambda: sim.simulate(matmul.tiled(64, tile=16), gpu="h200", timeline=0),
    "gemm": lambda: sim.simulate(tensor.gemm(200), gpu="a100_sxm_40gb", timeline=0),
    "transpose": lambda: sim.simulate(memory.transpose(64, "tiled"), gpu=small(), timeline=(0, 1)),
    "naive": lambda: sim.simulate(matmul.naive(32, coalesced=False), gpu="toy", timeline=0),
    "trip_counts": lambda: sim.simulate(divergence.trip_counts(200, below=40), gpu="rtx_4090", timeline=0),
    "pingpong": lambda: sim.simulate(gemm.pingpong(256, 1024, 128, blocks=2), gpu=small(), timeline=0),
}
WITHOUT = {  # pictures that say that there is nothing to show
    ("naive", "draw_banks"): "accesses of kind shared_ld",
    ("trip_counts", "draw_banks"): "accesses of kind shared_ld",
    ("pingpong", "draw_banks"): "accesses of kind shared_ld",
    ("transpose", "draw_roofline"): "no floating-point or tensor operations",
    ("tiled", "draw_pipeline"): "no warpgroup products",
    ("gemm", "draw_pipeline"): "no warpgroup products",
    ("transpose", "draw_pipeline"): "no warpgroup products",
    ("naive", "draw_pipeline"): "no warpgroup products",
    ("trip_counts", "draw_pipeline"): "no warpgroup products",
}


@cache
def report(name: str) -> sim.Report:
    return REPORTS[name]()


@cache
def picture(name: str, draw: str) -> Figure:
    return getattr(report(name), draw)()


CASES = [(name, draw) for name in REPORTS for draw in plot.OF_REPORT if (name, draw) not in WITHOUT]


@pytest.mark.parametrize(("name", "draw"), CASES)
def test_no_text_lies_on_another_or_leaves_the_picture(name: str, draw: str) -> None:
    figure = picture(name, draw)
    assert overlaps(figure) == []
    assert outside(figure) == []


@pytest.mark.parametrize("draw", sorted(set(plot.OF_REPORT) - {"draw_source"}))
def test_it_is_as_wide_as_a_notebook_s_cell_and_shows_itself(draw: str) -> None:
    png, size = picture("pingpong" if draw == "draw_pipeline" else "tiled", draw)._repr_png_()  # type: ignore[attr-defined]
    assert png.startswith(b"\x89PNG")
    assert size["width"] == WIDTH * DPI and size["height"] <= 1100


@pytest.mark.parametrize(("name", "draw"), WITHOUT)
def test_where_there_is_nothing_to_show_it_says_so(name: str, draw: str) -> None:
    with pytest.raises(ValueError, match=WITHOUT[name, draw]):
        picture(name, draw)


@pytest.mark.parametrize("draw", plot.OF_REPORT)
def test_it_is_a_method_and_says_how_to_read_it(draw: str) -> None:
    function, method = getattr(plot, draw), getattr(report("tiled"), draw)
    assert method.__func__ is function and draw in dir(report("tiled"))
    assert "How to read it:" in (inspect.getdoc(method) or "")


NEED_TIMELINE = ("draw_banks", "draw_divergence", "draw_pipeline", "draw_sectors", "draw_warps")


@pytest.mark.parametrize("draw", NEED_TIMELINE)
def test_what_needs_a_timeline_says_how_to_record_one(draw: str) -> None:
    plain = sim.simulate(divergence.lecture(64), gpu="toy")
    with pytest.raises(TimelineError, match="simulate it with timeline=0"):
        getattr(plain, draw)()


@pytest.mark.parametrize("draw", sorted(set(plot.OF_REPORT) - set(NEED_TIMELINE)))
def test_others_can_be_drawn_of_a_saved_report(draw: str) -> None:
    saved = sim.Report.from_json(report("naive").to_json())
    assert isinstance(getattr(saved, draw)(), Figure)


def test_a_name_that_is_no_picture_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="draw_nothing"):
        report("tiled").draw_nothing()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        plot.draw_nothing  # noqa: B018


#: What a reader without one kind of cone sees of linear RGB (Viénot, Brettel and Mollon 1999, as matrices).
SIGHT = {
    "normal": np.eye(3),
    "protan": np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
    "deutan": np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
}
#: Linear RGB to CIE XYZ, D65 (IEC 61966-2-1).
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(color: str, sight: str) -> np.ndarray:
    """CIE L*a*b* of a colour as such a reader sees it."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(SIGHT[sight] @ linear, 0, 1) / XYZ.sum(axis=1)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_of_stall_reasons_can_be_told_apart(sight: str) -> None:
    for a, b in combinations(FREQUENT, 2):
        assert np.linalg.norm(lab(COLOURS[a], sight) - lab(COLOURS[b], sight)) > 10, (a, b)


#: The reasons that fill timelines.
FREQUENT = (
    Stall.SELECTED, Stall.NOT_SELECTED, Stall.WAIT, Stall.LONG_SCOREBOARD, Stall.SHORT_SCOREBOARD, Stall.GMMA,
    Stall.MATH_PIPE_THROTTLE, Stall.MIO_THROTTLE, Stall.LG_THROTTLE, Stall.BARRIER, Stall.NO_INSTRUCTION,
    Stall.BRANCH_RESOLVING,
)  # fmt: skip


def test_a_picture_that_a_notebook_cuts_to_fit_keeps_its_title() -> None:
    figure = new_figure(1.0)
    headline(figure, "title", "note")
    assert tuple(figure.get_tightbbox().size) == tuple(figure.get_size_inches())
