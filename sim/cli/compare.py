"""`tailwave compare`: what changed between two reports, or two runs."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sim.cli.options import STANDARD_OUTPUT, Gpu, Json, check_places, write
from sim.cli.workloads import workload_launch

if TYPE_CHECKING:
    import pandas as pd

    from sim.report import Report

LEAST_CHANGE = 0.01  #: of a metric that is shown without --all


def compare(
    baseline: Annotated[str, typer.Argument(help="A report saved with --json, or a run in quotes.")],
    current: Annotated[str, typer.Argument(help="What to compare with it, likewise.")],
    gpu: Gpu = "h200",
    all_: Annotated[bool, typer.Option("--all", help="Show every metric, also those that did not change.")] = False,
    json: Json = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the table as CSV; - prints it instead.")] = None,
    max_slowdown: Annotated[
        float | None, typer.Option(min=0, help="Exit with 1 if it takes over so many percent more cycles.")
    ] = None,
) -> None:
    """Show what changed between two reports or runs.

    Cycles, verdicts and metrics, the first being the baseline. Only metrics of the page that
    changed by 1 % or more are shown; --all shows all.

    \b
    Examples:
      tailwave compare "memory.transpose n=256 method=naive" "memory.transpose n=256 method=padded"
      tailwave compare before.json after.json --max-slowdown 5
    """
    check_places(json, csv)
    before, after = report_of(baseline, gpu), report_of(current, gpu)
    table = after.compare(before)
    if STANDARD_OUTPUT not in (json, csv):
        typer.echo(head(before, after))
        show(table if all_ else changed(table))
    write(csv, lambda: table.to_csv(index=False, lineterminator="\n"))
    write(json, lambda: table.to_json(orient="records", indent=1) + "\n")
    slowdown = 100 * (after.cycles / before.cycles - 1)
    if max_slowdown is not None and slowdown > max_slowdown:
        typer.echo(f"tailwave: {slowdown:.1f} % more cycles than the baseline, over {max_slowdown:g} %", err=True)
        raise typer.Exit(1)


def report_of(words: str, gpu: str) -> Report:
    """The saved report of a file, or the report of a run such as `memory.copy n=1024`."""
    from sim.device import simulate
    from sim.report import Report

    if words.endswith(".json"):
        return Report.from_json(Path(words))
    try:
        name, *settings = shlex.split(words)
    except ValueError:
        raise typer.BadParameter(
            f"{words!r}: give a report's .json file, or a run such as 'memory.copy n=1024'"
        ) from None
    return simulate(workload_launch(name, settings), gpu=gpu)


def head(before: Report, after: Report) -> str:
    """Both titles and verdicts, and cycles against cycles."""
    ratio = after.cycles / before.cycles
    change = (
        "the same" if ratio == 1 else f"{1 / ratio:.2f} times as fast" if ratio < 1 else f"{ratio:.2f} times as slow"
    )
    return (
        f"baseline  {before.header.title}\n          {before.verdict.text}\n"
        f"current   {after.header.title}\n          {after.verdict.text}\n"
        f"cycles    {before.cycles:,} -> {after.cycles:,}, {change}"
    )


def changed(table: pd.DataFrame) -> pd.DataFrame:
    """The page's metrics that changed enough to be shown."""
    from sim.report.sections import PAGE

    on_page = {name for section in PAGE for name in section.rows}
    this, other = table["this"], table["other"]
    same = (this == other) | (this.isna() & other.isna()) | ((table["ratio"] - 1).abs() < LEAST_CHANGE)
    return table[~same & table["metric"].isin(on_page)]


def show(table: pd.DataFrame) -> None:
    """The table on the terminal: label, both values, and the change."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    from sim.report.formatting import with_unit
    from sim.report.metrics import TABLE

    if table.empty:
        typer.echo("no metric changed")
        return
    heads = [Column(head, justify="right", no_wrap=True) for head in ("baseline", "current", "change")]
    shown = Table(Column("metric", no_wrap=True), *heads, box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for row in table.itertuples():
        values = (" ".join(with_unit(value, row.unit)).strip() for value in (_plain(row.other), _plain(row.this)))
        shown.add_row(*map(Text, (TABLE[row.metric].label, *values, change_text(row.other, row.this))))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=120)
    console.print(shown)


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
