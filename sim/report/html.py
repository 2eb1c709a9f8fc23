"""The page as HTML: headline figures, then a fold a section, in a notebook in tabs with pictures; no scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from sim.report.metrics import BREAKDOWNS
from sim.report.sections import PAGE, Section
from sim.report.text import (
    LEFT_HEADINGS,
    LINE_HEADINGS,
    breakdown_cells,
    file_names,
    grid_cells,
    hottest_lines,
    line_cells,
    metric_cells,
    opcode_rows,
    stall_rows,
)
from sim.report.verdict import rule_text

if TYPE_CHECKING:
    from sim.report.report import Report

LINES = 40
OPEN = ("SpeedOfLight",)  #: sections that start unfolded

#: Colours come from the surrounding page, so that light and dark themes both read well.
STYLE = """
.tailwave{font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:70em}
.tailwave table{border-collapse:collapse;margin:.3em 0 .6em;font:inherit;color:inherit}
.tailwave th,.tailwave td{padding:.1em .7em;text-align:right;border:0;border-bottom:1px solid rgba(128,128,128,.3);
 background:transparent;color:inherit;font-size:inherit;white-space:nowrap}
.tailwave th:first-child,.tailwave td:first-child,.tailwave .l{text-align:left}
.tailwave summary{cursor:pointer;font-weight:600;padding:.15em 0}
.tailwave code{font-size:12px;background:transparent;color:inherit}
.tailwave .verdict{border-left:4px solid #4c8dd6;padding:.2em .7em;margin:.4em 0;font-weight:600}
.tailwave .advice{padding-left:1em;opacity:.9}
.tailwave .bar{display:inline-block;height:.75em;background:#4c8dd6;vertical-align:middle}
""".strip()


def page(report: Report) -> str:
    """An HTML fragment with its own style: all sections, a fold each."""
    folds = (section_fold(report, section, section.key in OPEN) for section in PAGE)
    return f'<div class="tailwave"><style>{STYLE}</style>{head(report)}{"".join(folds)}{source_fold(report)}</div>'


def head(report: Report) -> str:
    """Title, verdict and its rule, advice and notes."""
    lines = (rule_text(report.verdict), *report.advice, *report.header.notes)
    return (
        f"<div><b>{escape(report.header.title)}</b></div>"
        f'<div class="verdict">{escape(report.verdict.text)}</div>'
        + "".join(f'<div class="advice">{escape(line)}</div>' for line in lines)
    )


def fold(title: str, body: str, is_open: bool) -> str:
    return f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>{body}</details>"


def html_table(rows: Iterable[Sequence[str]], headings: Sequence[str] = ()) -> str:
    """A table of ready HTML cells."""
    head = f"<tr>{''.join(map(_heading, headings))}</tr>" if headings else ""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{head}{body}</table>"


def _heading(text: str) -> str:
    side = ' class="l"' if text in LEFT_HEADINGS else ""
    return f"<th{side}>{escape(text)}</th>"


def section_fold(report: Report, section: Section, is_open: bool) -> str:
    """One section: its metrics, bars and tables."""
    rows = []
    for name in section.rows:
        label, value = metric_cells(report, name)
        rows.append((f'<span title="{escape(name)}">{escape(label)}</span>', escape(value)))
    body = html_table(rows)
    if section.key == "SpeedOfLight":
        for label, parts in (breakdown_cells(report, name) for name in BREAKDOWNS):
            body += f'<div class="advice">{escape(label)}: {escape(parts)}</div>'
    if section.key == "WarpStateStats":
        body += _bars(stall_rows(report))
    if section.key == "InstructionStats":
        body += _bars(opcode_rows(report))
    for grid in section.grids:
        cells = [(escape(label), *map(escape, row)) for label, row in grid_cells(report, grid)]
        body += html_table(cells, (grid.title, *grid.columns)) if cells else ""
    return fold(section.title, body, is_open)


def _bars(rows: list[tuple[str, float, str]]) -> str:
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    return html_table(
        (escape(label), f'<span class="bar" style="width:{12 * value / most:.2f}em"></span>', escape(text))
        for label, value, text in rows
    )


def source_fold(report: Report, is_open: bool = False) -> str:
    """The source lines that took most cycles; nothing without any."""
    rows, hottest = [], hottest_lines(report, LINES)
    for row in hottest:
        line, source, *figures, stall = map(escape, line_cells(report, row))
        rows.append((line, f'<div class="l"><code>{source}</code></div>', *figures, f'<div class="l">{stall}</div>'))
    if not rows:
        return ""
    files = f"<div>{escape(', '.join(file_names(report, hottest)))}</div>"
    return fold("Source Lines With The Most Warp Cycles", files + html_table(rows, LINE_HEADINGS), is_open)
