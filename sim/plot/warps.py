"""Warps over time: issue and stall reason of each warp of an SM, and the lanes of one warp as it diverges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.counters import Stall, Track
from sim.isa import FULL_MASK, WARP_SIZE
from sim.plot.figure import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SKY,
    draw_legend,
    headline,
    new_figure,
    subject,
)
from sim.report.stalls import COLOURS, REASONS
from sim.timeline import TimelineError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sim.report import Report

COLUMNS = 1200  #: time bins of a picture
ISSUES = 120  #: issue slots of a picture
NO_WARP = -1
PATHS = (ORANGE, GREEN, PURPLE, RED, SKY)  #: colours of parts of a warp; the whole one is blue


# --- the warps of an SM


def states(report: Report, sm: int, cycles: tuple[int, int]) -> tuple[npt.NDArray[np.int8], list[int]]:
    """`[warps, bins]`: the stall reason that a warp slot was in for most of each bin of time, -1 without a warp.

    At most `COLUMNS` bins of equal length, of one cycle where the cycles are as few; and
    the warp slots of the rows: by sub-core, then by slot. Of equal shares the lower reason wins.
    """
    first, last = cycles
    columns = report.recorded.columns
    rows = (columns["track"] == Track.WARP) & (columns["sm"] == sm)
    rows &= (columns["end"] > first) & (columns["start"] < last)
    slot, state = columns["slot"][rows], columns["state"][rows]
    start, end = columns["start"][rows].clip(first) - first, columns["end"][rows].clip(max=last) - first
    subcores = report.profile.core.subcores
    slots = sorted(set(slot.tolist()), key=lambda s: (s % subcores, s))
    row = {s: k for k, s in enumerate(slots)}
    size = -(-(last - first) // COLUMNS)
    bins = -(-(last - first) // size)
    spent = np.zeros((len(slots), bins, len(Stall)), np.int32)
    at = np.array([row[s] for s in slot.tolist()], np.int64)
    while len(at):  # each turn takes the part of every interval that lies in its first bin
        k = start // size
        stop = np.minimum(end, (k + 1) * size)
        np.add.at(spent, (at, k, state), stop - start)
        left = stop < end
        at, state, start, end = at[left], state[left], stop[left], end[left]
    cells = np.where(spent.any(axis=2), spent.argmax(axis=2), NO_WARP)
    return cells.astype(np.int8), slots


def draw_warps(report: Report, sm: int | None = None, cycles: tuple[int, int] | None = None) -> Figure:
    """What each warp of an SM did over time: when it issued, and what it waited for.

    How to read it: a row is a warp slot of the SM, the rows of a sub-core together; colour is the stall
    reason, black an issue, white a slot without a warp. Rows that are one colour for long stand
    still: many warps in the same colour at once wait for the same thing, and nobody hides it. Black
    spread evenly, with grey (ready, another was chosen) between, is a busy SM.

    `sm` is one of the recorded ones, the first without it. `cycles` is the span shown, from
    launch; without it 1,200 cycles in the middle of the SM's time, or all of it. A longer span is
    shown in 1,200 bins, each in the colour of what took most of it, so single issues vanish. The
    launch must have been simulated with `timeline=`; raises `TimelineError` if not.
    """
    from matplotlib.colors import ListedColormap

    recorded = report.recorded
    sm = recorded.sms[0] if sm is None else sm
    first, last = span = _span(report, sm) if cycles is None else cycles
    if sm not in recorded.sms or last <= first:
        raise TimelineError(f"{report.header.kernel}: sm={sm}, cycles={span}: recorded are SM {recorded.sms}")
    cells, slots = states(report, sm, span)
    subcores = report.profile.core.subcores
    figure = new_figure(1.9 + max(0.08 * len(slots), 1.0))
    axes = figure.subplots()
    colors = ListedColormap(["white", *(COLOURS[reason] for reason in Stall)])
    axes.imshow(
        cells, cmap=colors, vmin=NO_WARP - 0.5, vmax=len(Stall) - 0.5, aspect="auto", interpolation="nearest",
        extent=(first, last, len(slots) - 0.5, -0.5),
    )  # fmt: skip
    of_subcore = [s % subcores for s in slots]
    for k in range(1, len(slots)):
        if of_subcore[k] != of_subcore[k - 1]:
            axes.axhline(k - 0.5, color="white", linewidth=2)
    middles = {s: np.flatnonzero(np.array(of_subcore) == s).mean() for s in set(of_subcore)}
    axes.set_yticks(list(middles.values()), [f"sub-core {s}" for s in middles], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("cycles from launch", fontsize=9)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    bin_cycles = -(-(last - first) // COLUMNS)
    bins = f", {bin_cycles} cycles a column" if bin_cycles > 1 else ""
    shares = _shares(report, sm, span)
    note = f"{len(slots)} warps of SM {sm}, cycles {first:,} to {last:,} of {report.cycles:,}{bins}. {shares}"
    headline(figure, subject(report), note)
    shown = [Stall(k) for k in range(len(Stall)) if (cells == k).any()]
    shown.sort(key=lambda reason: -int((cells == reason).sum()))
    draw_legend(figure, {_name(reason): COLOURS[reason] for reason in shown})
    return figure


def _name(reason: Stall) -> str:
    return "Issue" if reason is Stall.SELECTED else REASONS[reason].label.removeprefix("Stall ")


def _span(report: Report, sm: int) -> tuple[int, int]:
    """All of an SM's recorded time, or `COLUMNS` cycles in the middle of it."""
    columns = report.recorded.columns
    rows = columns["sm"] == sm
    if not rows.any():
        return 0, 0
    first, last = int(columns["start"][rows].min()), int(columns["end"][rows].max())
    spare = max(0, last - first - COLUMNS)
    return first + spare // 2, last - (spare + 1) // 2


def _shares(report: Report, sm: int, span: tuple[int, int]) -> str:
    """How often the SM issued, and its warps' most frequent stall, in the span."""
    columns = report.recorded.columns
    rows = (columns["track"] == Track.WARP) & (columns["sm"] == sm)
    cycles = (columns["end"][rows].clip(*span) - columns["start"][rows].clip(*span)).astype(float)
    by_state = np.bincount(columns["state"][rows], cycles, len(Stall))
    if not by_state.any():
        return "No warp is resident"
    issues = by_state[Stall.SELECTED] / (span[1] - span[0])
    waits = by_state.copy()
    waits[Stall.SELECTED] = 0
    top = Stall(int(waits.argmax()))
    return f"{issues:.2f} issues a cycle; {100 * waits[top] / by_state.sum():.0f} % of the warps' cycles: {_name(top)}"


# --- one warp


@dataclass(frozen=True)
class Path:
    """The lanes of one warp by issue slot: `active` and `on` masks, the instruction, and where lanes part and meet."""

    pc: npt.NDArray[np.int64]
    active: npt.NDArray[np.int64]
    on: npt.NDArray[np.int64]
    total: int  #: issue slots of the warp, of which these are a part
    first: int

    @property
    def parts(self) -> list[int]:
        """Slots whose lanes are only some of those of the slot before: a branch parted them."""
        before, now = self.active[:-1], self.active[1:]
        return (1 + np.flatnonzero((now != before) & (now & ~before == 0))).tolist()

    @property
    def meets(self) -> list[int]:
        """Slots whose lanes are those of the slot before and more: they reconverged."""
        before, now = self.active[:-1], self.active[1:]
        return (1 + np.flatnonzero((now != before) & (before & ~now == 0))).tolist()

    @property
    def efficiency(self) -> float:
        """Share of the lanes of all slots that were active."""
        lanes = sum(int(mask).bit_count() for mask in self.active)
        return lanes / (WARP_SIZE * len(self.active))


def path_of(report: Report, block: int, warp: int, issues: tuple[int, int]) -> Path:
    """The issue slots `issues` (first, end) of a warp. Raises `TimelineError` if it was not recorded."""
    columns = report.recorded.columns
    rows = (columns["track"] == Track.WARP) & (columns["state"] == Stall.SELECTED)
    rows &= (columns["block"] == block) & (columns["warp"] == warp)
    at = np.flatnonzero(rows)
    shown = at[slice(*issues)]
    if not len(shown):
        raise TimelineError(
            f"{report.header.kernel}: block {block}, warp {warp} has {len(at)} recorded issues, none in {issues}; "
            f"recorded are SM {', '.join(map(str, report.recorded.sms))}"
        )
    pc, active, on = (columns[name][shown].astype(np.int64) for name in ("pc", "active", "on"))
    return Path(pc, active, on, len(at), issues[0])


def draw_divergence(
    report: Report, block: int | None = None, warp: int = 0, issues: tuple[int, int] = (0, ISSUES)
) -> Figure:
    """Which lanes of one warp are active in each of its issue slots, branch by branch.

    How to read it: a column is an instruction that the warp issued, a row a lane. Blue is the whole
    warp; each part into which a branch splits it has a colour of its own, and white lanes stand
    still while the others execute: that is what divergence costs. Light cells are active lanes whose
    predicate switched this instruction off. Triangles mark where lanes part (▼) and where they meet
    again (▲); below stand the source lines.

    `block` and `warp` choose the warp, without `block` the first recorded block; `issues` the slots,
    from 0. The launch must have been simulated with `timeline=`. Raises `TimelineError` if not.
    """
    if block is None:
        block = int(report.recorded.columns["block"][:1].sum())
    path = path_of(report, block, warp, issues)
    figure = new_figure(4.6)
    axes, lines = figure.subplots(2, 1, sharex=True, height_ratios=(12, 1))
    colors = _path_colors(path)
    axes.imshow(
        _path_image(path, colors), aspect="auto", interpolation="nearest",
        extent=(path.first, path.first + len(path.pc), WARP_SIZE - 0.5, -0.5),
    )  # fmt: skip
    for slots, marker in ((path.parts, "v"), (path.meets, "^")):
        axes.plot([path.first + k for k in slots], [-1.6] * len(slots), marker, color="black", markersize=6)
    axes.set_ylim(WARP_SIZE - 0.5, -2.6)
    axes.set_yticks(range(0, WARP_SIZE, 4))
    axes.tick_params(axis="y", labelsize=8)
    axes.set_ylabel("lane", fontsize=9)
    axes.tick_params(axis="x", labelbottom=False, length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    _draw_lines(lines, report, path)
    note = (
        f"Block {block}, warp {warp}: issue slots {path.first} to {path.first + len(path.pc)} of {path.total}; "
        f"{100 * path.efficiency:.0f} % of the lanes are active; ▼ lanes part, ▲ they meet again"
    )
    headline(figure, subject(report), note)
    return figure


def _path_colors(path: Path) -> dict[int, str]:
    """A colour for each set of lanes; sets beyond the palette begin it again."""
    parts = [mask for mask in dict.fromkeys(path.active.tolist()) if mask != FULL_MASK]
    whole = max([*parts, FULL_MASK], key=lambda mask: (mask == FULL_MASK, mask)) if not parts else FULL_MASK
    return {whole: BLUE} | {mask: PATHS[k % len(PATHS)] for k, mask in enumerate(parts)}


def _path_image(path: Path, colors: dict[int, str]) -> npt.NDArray[np.float64]:
    """`[lanes, slots, rgb]`."""
    from matplotlib.colors import to_rgb

    lanes = np.arange(WARP_SIZE)[:, None]
    active, on = (path.active >> lanes) & 1 == 1, (path.on >> lanes) & 1 == 1
    full = np.array([to_rgb(colors[mask]) for mask in path.active.tolist()])
    image = np.ones((WARP_SIZE, len(path.pc), 3))
    image[active] = np.broadcast_to(1 - 0.3 * (1 - full), image.shape)[active]
    image[on] = np.broadcast_to(full, image.shape)[on]
    return image


def _draw_lines(axes: Axes, report: Report, path: Path) -> None:
    """A strip of the source lines; numbers where there is room."""
    line = np.array(report.content.instructions["line"])[path.pc]
    edges = [0, *(1 + np.flatnonzero(np.diff(line))).tolist(), len(line)]
    least = len(line) / 45
    for k, (left, right) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        axes.barh(0, right - left, left=path.first + left, height=1, color="#D0D0D0" if k % 2 else PALE, linewidth=0)
        if right - left >= least and line[left]:
            text = axes.text(path.first + (left + right) / 2, 0, str(line[left]), ha="center", va="center", fontsize=7)
            text.set_in_layout(False)
    axes.set_yticks([0], ["source line"], fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_ylim(0.5, -0.5)
    axes.set_xlabel("issue slot of the warp", fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.xaxis.label.set_color(INK)
