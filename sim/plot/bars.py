"""Bars: what warps waited for, and how busy each pipe was."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sim.counters import Stall
from sim.plot.figure import BLUE, INK, PALE, headline, new_figure, subject, tidy
from sim.report.metrics.compute import CYCLE_PIPES, INSTRUCTION_PIPES
from sim.report.metrics.speed import ELAPSED
from sim.report.stalls import COLOURS, REASONS, ratio_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sim.report import Report

LEAST_SHARE = 0.005  #: of all warp-cycles, from which a reason has a bar
BAR_INCHES = 0.27


def draw_stalls(report: Report) -> Figure:
    """What warps waited for: the cycles between two of a warp's issues, by stall reason.

    How to read it: the bars add up to the mean number of cycles from one instruction of a warp to its
    next. *Selected* is the issue itself, always 1; *Not Selected* means that others were chosen, which
    does no harm. The longest of the others is what to work on, if the schedulers are idle for much of
    the time: see the share of issue slots in the title line.
    """
    cycles = {reason: report[ratio_name(reason)] for reason in Stall}
    total = sum(value for value in cycles.values() if not math.isnan(value))
    shown = [reason for reason in Stall if total and cycles[reason] >= LEAST_SHARE * total]
    shown.sort(key=lambda reason: (-cycles[reason], reason))
    figure = new_figure(1.3 + BAR_INCHES * max(len(shown), 1))
    axes = figure.subplots()
    for k, reason in enumerate(shown):
        value = cycles[reason]
        axes.barh(k, value, height=0.7, color=COLOURS[reason])
        _label(axes, value, k, f"{value:,.2f} cycles  {100 * value / total:.0f} %")
    axes.set_yticks(range(len(shown)), [REASONS[reason].label for reason in shown], fontsize=8)
    axes.set_ylim(max(len(shown), 1) - 0.4, -0.6)
    axes.set_xlim(0, 1.25 * max((cycles[reason] for reason in shown), default=1.0))
    axes.set_xlabel("warp-cycles an issued instruction", fontsize=9)
    axes.tick_params(labelsize=8)
    tidy(axes, axis="x")
    note = (
        f"{total:,.1f} cycles between a warp's instructions; "
        f"{report['smsp__issue_active.avg.pct_of_peak_sustained_active']:.0f} % of the issue slots used, "
        f"{report['smsp__warps_active.avg.per_cycle_active']:.1f} warps a scheduler, "
        f"{report['smsp__warps_eligible.avg.per_cycle_active']:.2f} of them eligible"
    )
    headline(figure, subject(report), note)
    return figure


def draw_pipes(report: Report) -> Figure:
    """How busy each execution pipe was, in percent of what it can do over the elapsed time.

    How to read it: a bar near 100 % is a pipe that bounds the kernel, and only fewer instructions of
    that kind help. Where all bars are short, the kernel waits for something else: see the stalls.
    At the right stands how many warp instructions went through the pipe.
    """
    share = {pipe: report[f"sm__{_busy(pipe)}{ELAPSED}"] for pipe in INSTRUCTION_PIPES}
    counts = {pipe: report[f"sm__inst_executed_pipe_{pipe}.sum"] for pipe in INSTRUCTION_PIPES}
    pipes = sorted((p for p in share if counts[p] or share[p] > 0), key=lambda p: -share[p])
    figure = new_figure(1.3 + BAR_INCHES * max(len(pipes), 1))
    axes = figure.subplots()
    for k, pipe in enumerate(pipes):
        axes.barh(k, 100, height=0.7, color=PALE)
        axes.barh(k, share[pipe], height=0.7, color=BLUE)
        _label(axes, share[pipe], k, f"{share[pipe]:.1f} %")
        axes.text(129, k, f"{counts[pipe]:,}", ha="right", va="center", fontsize=8, color=INK)
    axes.text(129, -0.75, "warp instructions", ha="right", va="center", fontsize=8, color=INK)
    axes.set_yticks(range(len(pipes)), [INSTRUCTION_PIPES[pipe] for pipe in pipes], fontsize=8)
    axes.set_ylim(max(len(pipes), 1) - 0.4, -1.1)
    axes.set_xlim(0, 130)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("% of the pipe's peak over the elapsed time", fontsize=9)
    axes.tick_params(labelsize=8)
    tidy(axes)
    ipc = report["sm__inst_executed.avg.per_cycle_elapsed"]
    note = f"{report['smsp__inst_executed.sum']:,} warp instructions, {ipc:.2f} a cycle and SM"
    headline(figure, subject(report), note)
    return figure


def _busy(pipe: str) -> str:
    """The part of a metric's name that says how busy a pipe was."""
    return f"pipe_{pipe}_cycles_active" if pipe in CYCLE_PIPES else f"inst_executed_pipe_{pipe}"


def _label(axes: Axes, x: float, y: float, text: str) -> None:
    axes.annotate(text, (x, y), (5, 0), textcoords="offset points", va="center", fontsize=8)
