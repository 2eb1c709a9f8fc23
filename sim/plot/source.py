"""A kernel's source with what each line costs: share of the warps' time, sectors a request, what warps wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.counters import Stall
from sim.plot.figure import BLUE, INK, RED, headline, new_figure, subject
from sim.report.formatting import short_number
from sim.report.lines import Columns
from sim.report.stalls import REASONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sim.report import Report

LINE_INCHES, BARS_INCHES, CHARACTER_INCHES = 0.21, 4.6, 0.0702
NUMBER_CHARACTERS = 5  #: of a line number and the gap after it
HEADING_LINES = 2.5
INSTRUCTIONS_AT, CONFLICTS_AT, SECTORS_AT = (
    0.74,
    0.87,
    1.0,
)  #: right ends of the columns of numbers, of the width of the bars' half
WASTE = 1.5  #: times the sectors that dense accesses would take
NAMED = 5  #: percent of the cycles from which a line's stall reason is named


def draw_source(report: Report, source: str | None = None, file: str | None = None) -> Figure:
    """A kernel's source, and beside each line its share of all warps' cycles, what they waited for, and its counts.

    How to read it: a bar is the share of the cycles that warps spent at the line, with the reason for
    most of them; the longest is red. A cycle counts for the line whose instruction waits, which may
    be the one that needs the data, not the one that asked for it. At the right stand the warp
    instructions of the line, the bank conflicts of its shared-memory accesses, and the sectors a request
    of its global ones, which are red where they are over 1.5 times those of a dense access: 4 is right
    for words of 4 bytes.

    `source` is the file's text; without it, only lines that have instructions are shown.
    `file` chooses a file by the end of its name; without it, the one with the most cycles.
    Raises `ValueError` for a report without source lines.
    """
    columns = report.line_columns
    rows = _rows(report, file)
    texts = {columns["line"][row]: columns["source"][row] for row in rows}
    if source is not None:
        texts = dict(enumerate(source.rstrip("\n").splitlines(), 1))
    place = {line: k for k, line in enumerate(sorted(texts))}
    code_inches = CHARACTER_INCHES * (NUMBER_CHARACTERS + max(map(len, texts.values())))
    height = LINE_INCHES * (len(place) + HEADING_LINES)
    figure = new_figure(height, code_inches + BARS_INCHES)
    code, bars = figure.subplots(1, 2, sharey=True, width_ratios=(code_inches, BARS_INCHES))
    for line, k in place.items():
        code.text(0, k, f"{line:>3}", color=INK, family="monospace", fontsize=8, va="center")
        at = CHARACTER_INCHES * NUMBER_CHARACTERS
        code.text(at, k, texts[line], family="monospace", fontsize=8, va="center")
    whole = sum(columns["warp_cycles"]) or 1
    share = {row: 100 * columns["warp_cycles"][row] / whole for row in rows}
    hottest = max(rows, key=lambda row: share[row])
    for row in rows:
        if columns["line"][row] in place:
            _draw_line(bars, columns, row, place[columns["line"][row]], share[row], row == hottest)
    code.set_xlim(0, code_inches)
    bars.set_xlim(0, max(3.8 * share[hottest], 20))  # room for the longest bar's label
    for axis in (code, bars):
        axis.set_ylim(len(place) - 0.5, -2)
        axis.set_axis_off()
    _headings(bars, any(columns["bank_conflicts"][row] for row in rows))
    headline(figure, subject(report))
    return figure


def _rows(report: Report, file: str | None) -> list[int]:
    """Rows of the line table that are of one file. Raises `ValueError` for a report without such lines."""
    columns = report.line_columns
    cycles: dict[str, int] = {}
    for name, count in zip(columns["file"], columns["warp_cycles"], strict=True):
        if name and (file is None or name.endswith(file)):
            cycles[name] = cycles.get(name, 0) + count
    if not cycles:
        of = f" of {file}" if file else ""
        raise ValueError(f"{report.header.kernel}: the report has no source lines{of}")
    chosen = max(cycles, key=lambda name: cycles[name])
    return [row for row, name in enumerate(columns["file"]) if name == chosen]


def _draw_line(axis: Axes, columns: Columns, row: int, place: int, share: float, hottest: bool) -> None:
    """One line's bar and numbers."""
    color = RED if hottest else BLUE
    axis.barh(place, share, height=0.7, color=color)
    label = f" {share:.0f} %" if share >= 1 else ""
    if columns["top_stall"][row] and share >= NAMED:
        reason = REASONS[Stall[columns["top_stall"][row].upper()]]
        label += f"  {reason.label.removeprefix('Stall ')}"
    axis.text(share, place, label, fontsize=8, va="center", color=color)
    if columns["instructions"][row]:
        _put(axis, INSTRUCTIONS_AT, place, short_number(columns["instructions"][row]), False)
    if columns["sectors"][row]:
        wasteful = columns["sectors"][row] > WASTE * columns["ideal_sectors"][row] > 0
        _put(axis, SECTORS_AT, place, f"{columns['sectors_per_request'][row]:.1f}", wasteful)
    if columns["bank_conflicts"][row]:
        _put(axis, CONFLICTS_AT, place, short_number(columns["bank_conflicts"][row]), True)


def _put(axis: Axes, at: float, place: float, text: str, strong: bool) -> None:
    """A cell of a column of numbers; `at` is its right end."""
    color, weight = (RED, "bold") if strong else (INK, "normal")
    across = axis.get_yaxis_transform()
    axis.text(at, place, text, transform=across, fontsize=8, va="center", ha="right", color=color, fontweight=weight)


def _headings(bars: Axes, conflicts: bool) -> None:
    """What stands below, over the bars and the columns of numbers."""
    bars.text(0, -1.4, "share of cycles, top stall", fontsize=8, va="center", color=INK)
    across = bars.get_yaxis_transform()
    columns = {INSTRUCTIONS_AT: "warp\ninst", SECTORS_AT: "sectors /\nrequest"}
    columns |= {CONFLICTS_AT: "bank\nconflicts"} if conflicts else {}
    for at, text in columns.items():
        bars.text(at, -1.4, text, transform=across, fontsize=8, va="center", ha="right", color=INK)
