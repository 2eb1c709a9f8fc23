"""The pipeline of an SM: rows, bars and curve are the report's tables, and the note counts idle cycles."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

import sim
from sim.plot.pipeline import COLORS, draw_pipeline
from sim.timeline import TimelineError
from tests.core.launches import small
from tests.plot.pictures import outside, overlaps, texts
from workloads import divergence, gemm


@cache
def pingpong() -> sim.Report:
    return sim.simulate(gemm.pingpong(256, 1024, 128, blocks=2), gpu=small(), timeline=(0, 1))


def spans_of(sm: int) -> dict[str, np.ndarray]:
    table = pingpong().pipeline()
    return {unit: rows[["start", "end"]].to_numpy() for unit, rows in table[table["sm"] == sm].groupby("unit")}


def test_each_span_is_a_bar_in_the_row_of_its_warpgroup() -> None:
    axes = draw_pipeline(pingpong(), sm=1).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["TMA", "warpgroup 1", "warpgroup 2"]
    table = pingpong().pipeline().query("sm == 1")
    (bars,) = (c for c in axes.collections if isinstance(c, PolyCollection))
    corners = np.array([path.vertices for path in bars.get_paths()])
    assert (corners[:, :, 0].min(axis=1) == table["start"]).all() and (
        corners[:, :, 0].max(axis=1) == table["end"]
    ).all()
    assert (np.rint(corners[:, :4, 1].mean(axis=1)) == table["warpgroup"]).all()  # TMA is warpgroup 0's
    assert [to_hex(color).upper() for color in bars.get_facecolors()] == [COLORS[unit] for unit in table["unit"]]


def test_the_curve_is_the_utilization() -> None:
    report = pingpong()
    curve = draw_pipeline(report, sm=0, cycles=(1000, report.cycles)).axes[1]
    (steps,) = curve.patches
    values, edges, _ = steps.get_data()
    table = report.tensor_utilization(max(1, (report.cycles - 1000) // 200)).query("sm == 0")
    assert np.allclose(values, 100 * table["utilization"]) and (edges[:-1] == table["start"]).all()
    assert curve.get_xlim() == (1000, report.cycles)


def test_the_note_counts_cycles_in_which_the_tensor_cores_idle() -> None:
    spans, cycles = spans_of(0), pingpong().cycles
    busy = {unit: np.zeros(cycles, bool) for unit in spans}
    for unit, rows in spans.items():
        for start, end in rows:
            busy[unit][start:end] = True
    idle = ~busy["tensor"]
    says = f"idle for {idle.sum():,} cycles, {(idle & busy['epilogue']).sum():,} of them during an epilogue"
    assert any(says in text for text in [" ".join(texts(draw_pipeline(pingpong())))])
    assert 0 < (idle & busy["epilogue"]).sum() < idle.sum()


def test_blocks_that_share_an_sm_have_rows_of_their_own() -> None:
    report = sim.simulate(gemm.basic(64, 512, 64, tile=(64, 64), stages=2), gpu=small(), timeline=0)
    labels = [label.get_text() for label in draw_pipeline(report).axes[0].get_yticklabels()]
    assert labels == ["TMA", *(f"block {k}, warpgroup 0" for k in range(4))]


def test_it_is_readable() -> None:
    figure = draw_pipeline(pingpong())
    assert overlaps(figure) == [] and outside(figure) == []


def test_an_sm_or_span_that_is_not_there_is_refused() -> None:
    for sm, cycles in ((5, (0, 10)), (0, (10, 10)), (0, (0, 10**9))):
        with pytest.raises(TimelineError, match=rf"sm={sm}, cycles=\({cycles[0]}, .*recorded are SM \(0, 1\)"):
            draw_pipeline(pingpong(), sm=sm, cycles=cycles)


def test_a_launch_without_products_or_tma_has_nothing_to_show() -> None:
    with pytest.raises(TimelineError, match="no warpgroup products or TMA copies to show"):
        draw_pipeline(sim.simulate(divergence.lecture(64), gpu="toy", timeline=0))
