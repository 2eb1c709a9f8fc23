"""Warps over time: each cycle's state, and where the lanes of a diverging warp part and meet."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import sim
from sim.counters import Stall, Track
from sim.plot.figure import BLUE
from sim.plot.warps import COLUMNS, NO_WARP, PATHS, draw_divergence, draw_warps, path_of, states
from sim.timeline import TimelineError
from tests.core.launches import small
from tests.plot.pictures import texts
from workloads import matmul


@cache
def tiled() -> sim.Report:
    return sim.simulate(matmul.tiled(32, tile=16), gpu=small(), timeline=(0, 1))


def states_by_cycle(report: sim.Report, sm: int, first: int, last: int) -> dict[int, np.ndarray]:
    """By warp slot, the state of each cycle, one interval after another."""
    columns = report.recorded.columns
    found: dict[int, np.ndarray] = {}
    for k in np.flatnonzero((columns["track"] == Track.WARP) & (columns["sm"] == sm)):
        row = found.setdefault(int(columns["slot"][k]), np.full(last - first, NO_WARP))
        start, end = (int(np.clip(columns[name][k], first, last)) for name in ("start", "end"))
        row[start - first : end - first] = columns["state"][k]
    return found


def test_a_bin_of_one_cycle_is_the_state_of_that_cycle() -> None:
    report = tiled()
    first = int(report.recorded.columns["start"].min()) + 300
    cells, slots = states(report, 0, (first, first + 700))
    expected = states_by_cycle(report, 0, first, first + 700)
    assert cells.shape == (len(slots), 700)
    assert slots == sorted(expected, key=lambda slot: (slot % 4, slot))
    for row, slot in zip(cells, slots, strict=True):
        assert (row == expected[slot]).all()


def test_a_longer_bin_has_the_state_of_most_of_its_cycles() -> None:
    report = tiled()
    first = int(report.recorded.columns["start"].min()) - 50
    last = first + 3 * COLUMNS - 1
    cells, slots = states(report, 0, (first, last))
    assert cells.shape[1] == COLUMNS
    expected = states_by_cycle(report, 0, first, last)
    for row, slot in zip(cells, slots, strict=True):
        for k, cell in enumerate(row):
            part = expected[slot][3 * k : 3 * k + 3]
            counts = np.bincount(part[part >= 0], minlength=len(Stall))
            assert cell == (counts.argmax() if counts.any() else NO_WARP)


def test_the_picture_shows_these_cells() -> None:
    report = tiled()
    first = int(report.recorded.columns["start"].min())
    figure = draw_warps(report, sm=1, cycles=(first, first + 900))
    (image,) = figure.axes[0].images
    cells, slots = states(report, 1, (first, first + 900))
    assert (np.asarray(image.get_array()) == cells).all()
    assert image.get_extent() == [first, first + 900, len(slots) - 0.5, -0.5]
    issues = int((cells == Stall.SELECTED).sum())
    assert any(f"{issues / 900:.2f} issues a cycle" in text for text in texts(figure))
    legend = {text.get_text() for text in figure.legends[0].get_texts()}
    assert "Issue" in legend and len(legend) == len(set(cells.flat) - {NO_WARP})


def test_another_sm_or_an_empty_span_is_refused() -> None:
    report = sim.simulate(matmul.tiled(32, tile=16), gpu=small(), timeline=0)
    with pytest.raises(TimelineError, match=r"sm=1, cycles=.*: recorded are SM \(0,\)"):
        draw_warps(report, sm=1, cycles=(0, 10))
    with pytest.raises(TimelineError, match=r"cycles=\(10, 10\)"):
        draw_warps(report, cycles=(10, 10))


@sim.kernel
def two_sides(k, y):
    """Odd lanes loop, even ones do not; lane 5 loops longer."""
    i = k.thread_idx.x
    v = k.var(i.astype(np.float32))
    with k.if_((i & 1) == 1):
        for _ in k.range_(i, unroll=1):
            v.set(v * 2.0 + 1.0)
    y[i] = v


@cache
def diverging() -> sim.Report:
    return sim.simulate(two_sides.launch(1, 32, args=(sim.zeros(32),)), gpu=small(), timeline=(0, 1))


def test_lanes_part_and_meet_again() -> None:
    path = path_of(diverging(), 0, 0, (0, 10_000))
    odd = sum(1 << lane for lane in range(1, 32, 2))
    assert path.active[0] == 0xFFFFFFFF == path.active[-1] and path.total == len(path.pc)
    assert path.parts and path.active[path.parts[0]] == odd and path.active[path.parts[0] - 1] == 0xFFFFFFFF
    assert path.active[path.meets[-1]] == 0xFFFFFFFF
    columns = diverging().content.instructions
    assert path.total == sum(columns["instructions"])
    assert path.efficiency == pytest.approx(sum(columns["threads"]) / (32 * path.total))
    for k in path.parts:
        assert int(path.active[k]) & ~int(path.active[k - 1]) == 0
    for k in path.meets:
        assert int(path.active[k - 1]) & ~int(path.active[k]) == 0


def test_the_picture_colours_each_part_and_leaves_waiting_lanes_white() -> None:
    path = path_of(diverging(), 0, 0, (0, 30))
    figure = draw_divergence(diverging(), block=0, warp=0, issues=(0, 30))
    pixels = np.asarray(figure.axes[0].images[0].get_array())
    assert pixels.shape == (32, 30, 3)
    lanes = np.arange(32)[:, None]
    assert ((pixels == 1).all(axis=2) == ((path.active >> lanes) & 1 == 0)).all()
    whole = path.on == 0xFFFFFFFF
    assert (pixels[:, whole] == to_rgb(BLUE)).all()
    first = path.parts[0]
    assert path.on[first] == path.active[first]
    assert (pixels[1, first] == to_rgb(PATHS[0])).all()
    marks = {line.get_marker(): line.get_xdata() for line in figure.axes[0].lines}
    assert list(marks["v"]) == path.parts and list(marks["^"]) == path.meets


def test_the_strip_below_names_the_source_lines() -> None:
    figure = draw_divergence(diverging(), issues=(0, 20))
    path = path_of(diverging(), 0, 0, (0, 20))
    line = np.array(diverging().content.instructions["line"])[path.pc]
    bars = figure.axes[1].patches
    ends = [round(bar.get_x() + bar.get_width()) for bar in bars]
    assert ends == [*(1 + np.flatnonzero(np.diff(line))).tolist(), 20]
    assert {text.get_text() for text in figure.axes[1].texts} == {str(n) for n in line if n}


def test_a_warp_that_was_not_recorded_is_refused() -> None:
    with pytest.raises(TimelineError, match="block 7, warp 0 has 0 recorded issues"):
        draw_divergence(diverging(), block=7)
