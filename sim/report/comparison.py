"""Two reports side by side: a table that shows itself with what changed marked, as Nsight's baseline does."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from sim.report.formatting import with_unit
from sim.report.metrics import TABLE
from sim.report.sections import PAGE, TITLES

LEAST_CHANGE = 0.01  #: of a metric that counts as changed
MUCH = 0.1  #: of a metric that changed much
TEXT_WIDTH = 120
MORE, LESS = "▲", "▼"
BAR_PERCENT = 100  #: change that fills a bar
MORE_COLOR, LESS_COLOR = "#0072B2", "#D55E00"  #: of Okabe and Ito's palette; the triangles say it too


class Comparison(pd.DataFrame):
    """The metrics of two reports: `metric`, `unit`, `this`, `other`, `ratio` (this over other).

    A table as any other; shown, it is the page's metrics that changed by 1 % or more, with a triangle
    up where this report has more than the other (▲) and down where it has less (▼).
    """

    def changed(self) -> pd.DataFrame:
        """The rows of the page's metrics that changed by 1 % or more, in the page's order."""
        on_page = [name for section in PAGE for name in section.rows]
        this, other = self["this"], self["other"]
        same = (this == other) | (this.isna() & other.isna()) | ((self["ratio"] - 1).abs() < LEAST_CHANGE)
        rows = pd.DataFrame(self)[~same & self["metric"].isin(on_page)]
        return rows.sort_values("metric", key=lambda names: names.map(on_page.index), kind="stable")

    def __repr__(self) -> str:
        return text(self.changed()) if list(self.columns) == COLUMNS else super().__repr__()

    def _repr_html_(self) -> Any:
        return html(self) if list(self.columns) == COLUMNS else super()._repr_html_()  # type: ignore[operator]


COLUMNS = ["metric", "unit", "this", "other", "ratio"]


@dataclass(frozen=True)
class Change:
    """One metric in two reports, as shown: label, both values with their unit, and what changed."""

    metric: str
    section: str
    label: str
    this: str
    other: str
    change: str  #: "+25.0 %", "x 4.0", "new" or ""
    mark: str  #: MORE, LESS or ""
    ratio: float  #: this over other; NaN where there is none


def changes(table: pd.DataFrame) -> Iterator[Change]:
    """The rows of a comparison as a reader wants them."""
    for name, unit, this, other, ratio in table[COLUMNS].itertuples(index=False, name=None):
        same = math.isclose(this, other, rel_tol=LEAST_CHANGE) or math.isnan(this) or math.isnan(other)
        here, there = (" ".join(with_unit(_plain(value), unit)).strip() for value in (this, other))
        mark = "" if same else MORE if this > other else LESS
        yield Change(
            name, TITLES[TABLE[name].section], TABLE[name].label, here, there, change_text(other, this), mark, ratio
        )


def _plain(value: float) -> int | float:
    """A whole number as one: a table's column has one type."""
    return int(value) if not math.isnan(value) and value == int(value) else value


def change_text(before: float, after: float) -> str:
    """`+25 %`, `x 4.0` from double on, or nothing where there is no ratio."""
    if math.isnan(before) or math.isnan(after) or before == after:
        return ""
    if before <= 0 or after < 0:
        return "new" if before == 0 else ""
    ratio = after / before
    return f"x {ratio:,.1f}" if ratio >= 2 else f"{100 * (ratio - 1):+.1f} %"


def text(table: pd.DataFrame, names: tuple[str, str] = ("other", "this")) -> str:
    """The rows as lines: label, the other report's value, this one's, and the change."""
    if table.empty:
        return "no metric changed"
    heads = [Column(head, justify="right", no_wrap=True) for head in (*names, "change")]
    shown = Table(Column("metric", no_wrap=True), *heads, Column(""), box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for row in changes(table):
        shown.add_row(*map(Text, (row.label, row.other, row.this, row.change, row.mark)))
    sink = io.StringIO()
    console = Console(
        file=sink, width=TEXT_WIDTH, color_system=None, highlight=False, legacy_windows=False, force_jupyter=False
    )
    console.print(shown)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines())


STYLE = (
    """
.tailwave .more,.tailwave .less{display:inline-block;height:.75em;vertical-align:middle}
.tailwave .more{background:MORE}.tailwave .less{background:LESS}
.tailwave .much{font-weight:600}
""".strip()
    .replace("MORE", MORE_COLOR)
    .replace("LESS", LESS_COLOR)
)


def html(table: pd.DataFrame) -> str:
    """Folds, a section each, with all metrics of the page; what changed is marked, and its sections are open."""
    from sim.report.html import STYLE as PAGE_STYLE
    from sim.report.html import fold, html_table

    by_name = {row.metric: row for row in changes(table)}
    parts = [f"<style>{PAGE_STYLE}{STYLE}</style>"]
    for section in PAGE:
        rows = [by_name[name] for name in section.rows if name in by_name]
        marked = sum(bool(row.mark) for row in rows)
        cells = [(_named(row), escape(row.other), escape(row.this), _marked(row), _bar(row)) for row in rows]
        title = f"{section.title}: {marked} of {len(rows)} changed"
        parts.append(fold(title, html_table(cells, ("", "other", "this", "change", "")), marked > 0))
    return f'<div class="tailwave">{"".join(parts)}</div>'


def _named(row: Change) -> str:
    return f'<span title="{escape(row.metric)}">{escape(row.label)}</span>'


def _marked(row: Change) -> str:
    much = row.mark and not abs(row.ratio - 1) < MUCH
    return f'<span class="{"much" if much else ""}">{escape(row.change)} {row.mark}</span>' if row.change else ""


def _bar(row: Change) -> str:
    """A bar as long as the change, full where it doubled or fell to nothing."""
    if not row.mark or math.isnan(row.ratio):
        return ""
    width = 6 * min(abs(row.ratio - 1) * 100, BAR_PERCENT) / BAR_PERCENT
    kind = "more" if row.mark == MORE else "less"
    return f'<div class="l"><span class="{kind}" style="width:{width:.2f}em"></span></div>'
