"""The profiler's page as text: fixed width, plain characters, the same for a terminal and a file."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sim.counters import Stall
from sim.report.formatting import number, with_unit
from sim.report.metrics import BREAKDOWNS, TABLE
from sim.report.sections import PAGE, STALL_RATIOS, Grid, Section
from sim.report.stalls import REASONS
from sim.report.verdict import rule_text

if TYPE_CHECKING:
    from sim.report.report import Report

WIDTH = 120
LABEL_WIDTHS, VALUE_WIDTH = (36, 40), 17
SOURCE_LINES = 12  #: source lines shown, those with the most stall cycles
OPCODES = 12
BREAKDOWN_ROWS = 4
BAR = 30  #: characters of the longest bar
LEAST_BAR_SHARE = 0.005  #: stall reasons below this share of the warp-cycles are not shown


def page(report: Report) -> str:
    """The whole page; lines end without blanks."""
    sink = io.StringIO()
    console = Console(
        file=sink, width=WIDTH, force_terminal=False, color_system=None, highlight=False, markup=False, emoji=False,
        legacy_windows=False, force_jupyter=False,
    )  # fmt: skip
    _head(console, report)
    for section in PAGE:
        _section(console, report, section)
    _source(console, report)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines())


def _head(console: Console, report: Report) -> None:
    console.print(Text(report.header.title))
    console.print()
    console.print(_hanging("Verdict  ", report.verdict.text))
    console.print(_hanging("  rule   ", rule_text(report.verdict)))
    for advice in report.advice:
        console.print(_hanging("  advice ", advice))
    for note in report.header.notes:
        console.print(_hanging("  note   ", note))


def _hanging(head: str, text: str) -> Table:
    """A paragraph that hangs under its first word."""
    table = Table.grid()
    table.add_column(width=len(head), no_wrap=True)
    table.add_column(width=WIDTH - len(head))
    table.add_row(Text(head), Text(text))
    return table


def _section(console: Console, report: Report, section: Section) -> None:
    console.print()
    console.rule(f"[{section.title}]", align="left", characters="-")
    console.print(pairs(report, section.rows))
    if section.key == "SpeedOfLight":
        for name in BREAKDOWNS:
            console.print(_breakdown(report, name))
    if section.key == "WarpStateStats":
        console.print(_stalls(report))
    if section.key == "InstructionStats":
        console.print(_opcodes(report))
    for grid in section.grids:
        rows = grid_cells(report, grid)
        if rows:
            console.print(_grid(grid, rows))


def pairs(report: Report, names: tuple[str, ...]) -> Table:
    """Metrics as label and value, two in a row."""
    table = Table.grid(padding=(0, 1))
    for width in LABEL_WIDTHS:
        table.add_column(width=width, no_wrap=True, overflow="crop")
        table.add_column(width=VALUE_WIDTH, justify="right", no_wrap=True, overflow="crop")
    cells = [metric_cells(report, name) for name in names]
    if len(cells) % 2:
        cells.append(("", ""))
    for left, right in zip(cells[::2], cells[1::2], strict=True):
        table.add_row(*(Text(cell) for cell in (*left, *right)))
    return table


def metric_cells(report: Report, name: str) -> tuple[str, str]:
    """Label, and value with unit, of a metric, scaled for a reader."""
    metric = TABLE[name]
    value, unit = with_unit(report[name], metric.unit)
    return metric.label, f"{value} {unit}".rstrip()


def grid_cells(report: Report, grid: Grid) -> list[tuple[str, list[str]]]:
    """A grid's rows as label and formatted cells, without rows that count nothing."""

    def counts(names: tuple[str, ...]) -> bool:
        return any(report[name] and not math.isnan(report[name]) for name in names if name)

    return [(label, [_cell(report, name) for name in names]) for label, names in grid.rows if counts(names)]


def _cell(report: Report, name: str) -> str:
    if not name:
        return ""
    value, unit = with_unit(report[name], TABLE[name].unit)
    return f"{value} {unit}" if unit.endswith(("byte", "byte/s", "%")) and value != "n/a" else value


def _grid(grid: Grid, rows: list[tuple[str, list[str]]]) -> Padding:
    table = Table(box=box.ASCII2, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column(grid.title, width=22, no_wrap=True)
    for column in grid.columns:
        table.add_column(column, justify="right", no_wrap=True, min_width=12)
    for label, cells in rows:
        table.add_row(Text(label), *(Text(cell) for cell in cells))
    return Padding(table, (1, 0, 0, 0))


def _bars(rows: list[tuple[str, float, str]]) -> Table:
    """Label, bar and text; the longest bar is the largest value's."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=LABEL_WIDTHS[0], no_wrap=True, overflow="crop")
    table.add_column(width=BAR, no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    most = max((value for _, value, _ in rows), default=0.0)
    for label, value, text in rows:
        table.add_row(Text(label), Text("#" * round(BAR * value / most) if most else ""), Text(text))
    return table


def breakdown_cells(report: Report, name: str) -> tuple[str, str]:
    """Label and text for the largest parts of a throughput figure."""
    parts = [(TABLE[part].label, report[part]) for part in BREAKDOWNS[name]]
    parts = sorted((p for p in parts if not math.isnan(p[1]) and p[1] > 0), key=lambda part: -part[1])
    words = ", ".join(f"{label} {value:.1f}%" for label, value in parts[:BREAKDOWN_ROWS]) or "nothing"
    return f"{TABLE[name].label.removesuffix(' Throughput')} breakdown", words


def _breakdown(report: Report, name: str) -> Padding:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=LABEL_WIDTHS[0], no_wrap=True, overflow="crop")
    table.add_column()
    table.add_row(*map(Text, breakdown_cells(report, name)))
    return Padding(table, (0, 0, 0, 0))


def stall_rows(report: Report) -> list[tuple[str, float, str]]:
    """Stall reasons by size: label, warp-cycles an instruction, and both figures as text."""
    ratios = {reason: report[name] for reason, name in STALL_RATIOS.items()}
    total = sum(value for value in ratios.values() if not math.isnan(value))
    shown = [reason for reason in Stall if total and ratios[reason] >= LEAST_BAR_SHARE * total]
    shown.sort(key=lambda reason: (-ratios[reason], reason))
    return [
        (
            REASONS[reason].label,
            ratios[reason],
            f"{ratios[reason]:,.2f} cycles/inst  {100 * ratios[reason] / total:4.1f} %",
        )
        for reason in shown
    ]


def _stalls(report: Report) -> Padding:
    return Padding(_bars(stall_rows(report)), (1, 0, 0, 0))


def _opcodes(report: Report) -> Padding:
    return Padding(_bars(opcode_rows(report)), (1, 0, 0, 0))


def opcode_rows(report: Report) -> list[tuple[str, float, str]]:
    """The most frequent opcodes, and the rest as one row: name, count, and count as text."""
    counts = report.opcode_counts()
    rows = [(op, float(count), number(count)) for op, count in counts[:OPCODES]]
    rest = sum(count for _, count in counts[OPCODES:])
    if rest:
        rows.append((f"{len(counts) - OPCODES} more", float(rest), number(rest)))
    return rows


def hottest_lines(report: Report, count: int) -> list[int]:
    """Rows of the line table with the most warp-cycles, in the table's own order."""
    cycles = report.line_columns["warp_cycles"]
    top = sorted(range(len(cycles)), key=lambda row: (-cycles[row], row))[:count]
    return sorted(row for row in top if cycles[row] or report.line_columns["instructions"][row])


def file_names(report: Report, rows: list[int]) -> list[str]:
    """Names, without folders, of the files that these rows of the line table come from."""
    files = {report.line_columns["file"][row] for row in rows} - {""}
    return [file.replace("\\", "/").rpartition("/")[2] for file in sorted(files)]


def line_cells(report: Report, row: int) -> tuple[str, ...]:
    """One source line's figures: line, source, instructions, threads, sectors, conflicts, stalls."""
    c = report.line_columns
    threads, sectors = c["threads_per_instruction"][row], c["sectors_per_request"][row]
    has_sectors = bool(c["sectors"][row])
    total = sum(c["warp_cycles"]) or 1
    return (
        str(c["line"][row]) if c["file"][row] else f"{c['line'][row]:#06x}",
        c["source"][row],
        number(c["instructions"][row]),
        f"{threads:.1f}" if not math.isnan(threads) else "",
        f"{sectors:.1f}" if has_sectors else "",
        number(c["bank_conflicts"][row]) if c["bank_conflicts"][row] else "",
        f"{100 * c['warp_cycles'][row] / total:.1f}",
        REASONS[Stall[c["top_stall"][row].upper()]].label.removeprefix("Stall ") if c["top_stall"][row] else "",
    )


LINE_HEADINGS = ("Line", "Source", "Inst", "Threads", "Sect/Req", "Conflicts", "Cycle %", "Top Stall")
LEFT_HEADINGS = ("Source", "Top Stall")  #: of columns of words


def _source(console: Console, report: Report) -> None:
    rows = hottest_lines(report, SOURCE_LINES)
    if not rows:
        return
    console.print()
    console.rule("[Source Lines With The Most Warp Cycles]", align="left", characters="-")
    for file in file_names(report, rows):
        console.print(Text(file))
    table = Table(box=box.ASCII2, show_edge=False, pad_edge=False, padding=(0, 1))
    widths = (6, 34, 10, 7, 8, 9, 7, 18)
    for k, (heading, width) in enumerate(zip(LINE_HEADINGS, widths, strict=True)):
        left = heading in LEFT_HEADINGS
        table.add_column(
            heading, min_width=width if k != 1 else 20, max_width=width, no_wrap=True, overflow="crop",
            justify="left" if left else "right",
        )  # fmt: skip
    for row in rows:
        table.add_row(*(Text(cell) for cell in line_cells(report, row)))
    console.print(table)
