"""Blocks on SMs over time: waves, places, and the bars of the picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

import sim
from sim.plot.blocks import LAST_WAVE_COLOR, WAVE_COLORS, draw_blocks, places_of, waves_of
from tests.core.launches import small
from tests.plot.pictures import texts
from workloads import waves

BLOCKS = np.array([[0, 10, 50], [1, 10, 40], [0, 11, 30], [1, 12, 60], [0, 31, 70], [1, 41, 80], [0, 52, 60]])


def test_places_are_the_lowest_that_are_free() -> None:
    assert places_of(BLOCKS).tolist() == [0, 0, 1, 1, 1, 0, 0]


def test_waves_are_counted_in_order_of_start() -> None:
    assert waves_of(BLOCKS, 4).tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert waves_of(BLOCKS[::-1], 2).tolist() == [3, 2, 2, 1, 1, 0, 0]


def test_each_block_is_a_bar_in_the_colour_of_its_wave() -> None:
    report = sim.simulate(waves.spin(2 * 2 * 8 + 3, iters=40), gpu=small())
    figure = draw_blocks(report)
    (bars,) = (c for c in figure.axes[0].collections if isinstance(c, PolyCollection))
    times = report.content.block_times
    corners = np.array([path.vertices for path in bars.get_paths()])
    assert (corners[:, :, 0].min(axis=1) == times[:, 1]).all() and (corners[:, :, 0].max(axis=1) == times[:, 2]).all()
    middle = (corners[:, :4, 1].min(axis=1) + corners[:, :4, 1].max(axis=1)) / 2
    assert (np.rint(middle) == times[:, 0]).all()
    wave = waves_of(times, int(report["tailwave__blocks_per_wave"]))
    assert wave.max() == report.waves - 1 == 2
    colors = [to_hex(color).upper() for color in bars.get_facecolors()]
    assert colors == [(*WAVE_COLORS, LAST_WAVE_COLOR)[w] for w in wave]
    dashed, end = (line.get_xdata()[0] for line in figure.axes[0].lines)
    assert dashed == times[wave == 2, 1].min() and end == times[:, 2].max()
    assert any("35 blocks: 3 waves, the last, from the dashed line on, of 3 blocks (19 %)" in t for t in texts(figure))


def test_bars_of_one_sm_do_not_overlap() -> None:
    report = sim.simulate(waves.spin(37, iters=30), gpu=small())
    times, place = report.content.block_times, places_of(report.content.block_times)
    for sm in (0, 1):
        for p in set(place):
            mine = times[(times[:, 0] == sm) & (place == p)]
            mine = mine[mine[:, 1].argsort()]
            assert (mine[1:, 1] >= mine[:-1, 2]).all()


def test_what_a_reader_must_know_of_the_launch_stands_in_the_picture() -> None:
    content = sim.simulate(waves.spin(40, iters=20), gpu=small()).content
    sampled = replace(content, header=replace(content.header, notes=("Sampled: 6 % of blocks ran",)))
    assert "Sampled: 6 % of blocks ran" in texts(draw_blocks(sim.Report.of(sampled)))


def test_of_very_many_blocks_the_first_sms_are_shown(monkeypatch) -> None:
    report = sim.simulate(waves.spin(40, iters=20), gpu="h200")
    monkeypatch.setattr("sim.plot.blocks.BLOCKS_SHOWN", 12)
    figure = draw_blocks(report)
    (bars,) = (c for c in figure.axes[0].collections if isinstance(c, PolyCollection))
    on = report.content.block_times[:, 0]
    shown = next(sms for sms in range(132, 0, -1) if (on < sms).sum() <= 12)
    assert len(bars.get_paths()) == (on < shown).sum() == 12
    assert any(f"Shown are SMs 0 to {shown - 1}" in text for text in texts(figure))
