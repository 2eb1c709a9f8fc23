"""Blocks on SMs over time: waves, and the tail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.plot.figure import BLUE, ORANGE, RED, SKY, draw_legend, headline, new_figure, subject
from sim.report.formatting import counted, percent_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sim.report import Report

WAVE_COLORS = (BLUE, SKY)  #: by turns
LAST_WAVE_COLOR = ORANGE
BLOCKS_SHOWN = 30_000
FEW_SMS = 16  #: up to which blocks are drawn with gaps between them


def places_of(blocks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The place of each block on its SM: the lowest that is free when it starts. `blocks` as in `report.blocks`."""
    place = np.zeros(len(blocks), np.int64)
    free: dict[int, list[int]] = {}  # by SM: when each place is free
    for k in np.lexsort((np.arange(len(blocks)), blocks[:, 1], blocks[:, 0])).tolist():
        sm, start, end = blocks[k].tolist()
        until = free.setdefault(sm, [])
        slot = next((i for i, time in enumerate(until) if time <= start), len(until))
        until[slot : slot + 1] = [end]
        place[k] = slot
    return place


def waves_of(blocks: npt.NDArray[np.int64], blocks_per_wave: int) -> npt.NDArray[np.int64]:
    """The wave of each block, from 0: the k-th wave's blocks are the k-th `blocks_per_wave` in order of start."""
    wave = np.empty(len(blocks), np.int64)
    wave[np.argsort(blocks[:, 1], kind="stable")] = np.arange(len(blocks)) // blocks_per_wave
    return wave


def draw_blocks(report: Report) -> Figure:
    """When and where each block ran: SMs from top to bottom, time from left to right, waves by colour.

    How to read it: each bar is a block, blocks that share an SM lie above each other in its row. Two blues
    take turns from wave to wave; orange is the last wave. White to the right of it is an SM that has no
    work any more: if few orange bars hold the whole GPU, the grid is a little too large for a whole
    number of waves (the tail). Blocks of very different length show as ragged waves. Of a grid of many
    blocks as many SMs are shown, from 0 on, as 30,000 blocks take.
    """
    blocks = report.content.block_times
    wave = waves_of(blocks, int(report["tailwave__blocks_per_wave"]))
    sms = _sms_shown(blocks[:, 0], int(report["launch__sm_count"]))
    shown = blocks[:, 0] < sms
    figure = new_figure(5.2)
    axes = figure.subplots()
    _draw_bars(axes, blocks[shown], wave[shown], int(wave.max()), sms)
    axes.axvline(int(blocks[wave == wave.max(), 1].min()), color=RED, linewidth=1, linestyle="--")
    axes.axvline(int(blocks[:, 2].max()), color=RED, linewidth=1)
    axes.set_xlim(0, report.cycles)
    axes.set_ylim(sms - 0.5, -0.5)
    axes.set_xlabel("cycles from launch", fontsize=9)
    axes.set_ylabel("SM", fontsize=9)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    part = "" if shown.all() else f". Shown are SMs 0 to {sms - 1}"
    headline(figure, subject(report), _note(report) + part, *report.header.notes)
    names = ("first wave", "second wave")
    if report.waves > 3:
        names = ("first, third, ... wave", "second, fourth, ... wave")
    legend = dict(zip(names[: report.waves - 1], WAVE_COLORS, strict=False))
    draw_legend(figure, legend | {"last wave" if report.waves > 1 else "the only wave": LAST_WAVE_COLOR})
    return figure


def _sms_shown(sm: npt.NDArray[np.int64], sms: int) -> int:
    """How many SMs, from 0 on, have no more blocks than can be shown; at least one."""
    blocks = np.cumsum(np.bincount(sm, minlength=sms))
    return max(1, int(np.searchsorted(blocks, BLOCKS_SHOWN, side="right")))


def _draw_bars(
    axes: Axes, blocks: npt.NDArray[np.int64], wave: npt.NDArray[np.int64], last_wave: int, sms: int
) -> None:
    """A rectangle a block, in the row of its SM."""
    from matplotlib.collections import PolyCollection

    place = places_of(blocks)
    places = int(place.max(initial=0)) + 1
    high = 1 / places if sms > FEW_SMS else 0.9 / places
    sm, start, end = blocks.T
    low = sm - 0.5 + place / places
    corners = np.stack([start, low, end, low, end, low + high, start, low + high], axis=1).reshape(-1, 4, 2)
    colors = np.where(wave == last_wave, len(WAVE_COLORS), wave % len(WAVE_COLORS))
    faces = [(*WAVE_COLORS, LAST_WAVE_COLOR)[color] for color in colors]
    axes.add_collection(PolyCollection(list(corners), facecolors=faces, linewidths=0, antialiaseds=sms <= FEW_SMS))


def _note(report: Report) -> str:
    """Blocks, waves, and what the tail costs, in words."""
    last = int(report["tailwave__last_wave_blocks"])
    share = percent_text(100 * last / report["tailwave__blocks_per_wave"])
    idle = f"{report['tailwave__tail_cycles.avg']:,.0f} cycles ({percent_text(report['tailwave__tail_cycles.pct'])})"
    waves = f"{share} of a wave"
    if report.waves > 1:
        waves = f"{report.waves:,} waves, the last, from the dashed line on, of {counted(last, 'block')} ({share})"
    blocks = counted(len(report.content.block_times), "block")
    return f"{blocks}: {waves}; at the end an SM is idle for {idle} on average"
