"""`tailwave compare`: what changed between two reports, or two runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sim.cli.options import STANDARD_OUTPUT, Gpu, Json, check_places, write
from sim.cli.workloads import workload_launch

if TYPE_CHECKING:
    from sim.report import Report


def compare(
    baseline: Annotated[
        str, typer.Argument(help="A report saved with --json, or a run in quotes, perhaps with gpu=NAME.")
    ],
    current: Annotated[str, typer.Argument(help="What to compare with it, likewise.")],
    gpu: Gpu = "h200",
    all_: Annotated[bool, typer.Option("--all", help="Show every metric, also those that did not change.")] = False,
    json: Json = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the table as CSV; - prints it instead.")] = None,
    max_slowdown: Annotated[
        float | None, typer.Option(min=0, help="Exit with 1 if it takes over so many percent longer.")
    ] = None,
) -> None:
    """Show what changed between two reports or runs.

    Cycles, verdicts and metrics, the first being the baseline. Only metrics of the page that
    changed by 1 % or more are shown; --all shows all.

    \b
    Examples:
      tailwave compare "memory.transpose n=256 method=naive" "memory.transpose n=256 method=padded"
      tailwave compare "matmul.tiled n=128 tile=16 gpu=t4" "matmul.tiled n=128 tile=16 gpu=h200"
      tailwave compare before.json after.json --max-slowdown 5
    """
    from sim.report.comparison import text

    check_places(json, csv)
    before, after = report_of(baseline, gpu), report_of(current, gpu)
    table = after.compare(before)
    if STANDARD_OUTPUT not in (json, csv):
        typer.echo(head(before, after))
        typer.echo(text(table if all_ else table.changed(), ("baseline", "current")))
    write(csv, lambda: table.to_csv(index=False, lineterminator="\n"))
    write(json, lambda: table.to_json(orient="records", indent=1) + "\n")
    slowdown = 100 * (after.seconds / before.seconds - 1)
    if max_slowdown is not None and slowdown > max_slowdown:
        typer.echo(f"tailwave: takes {slowdown:.1f} % longer than the baseline, over {max_slowdown:g} %", err=True)
        raise typer.Exit(1)


def report_of(words: str, gpu: str) -> Report:
    """The saved report of a file, or the report of a run such as `memory.copy n=1024 gpu=t4`."""
    from sim.device import simulate
    from sim.report import Report

    if words.endswith(".json"):
        return Report.from_json(Path(words))
    try:
        name, *settings = shlex.split(words)
        own = [setting.removeprefix("gpu=") for setting in settings if setting.startswith("gpu=")]
    except ValueError:
        raise typer.BadParameter(
            f"{words!r}: give a report's .json file, or a run such as 'memory.copy n=1024'"
        ) from None
    launch = workload_launch(name, [setting for setting in settings if not setting.startswith("gpu=")])
    return simulate(launch, gpu=own[-1] if own else gpu)


def head(before: Report, after: Report) -> str:
    """Both titles and verdicts, cycles, and time, which tells of two GPUs what cycles do not."""
    from sim.report.comparison import change_text
    from sim.report.formatting import with_unit

    times = (" ".join(with_unit(report.seconds * 1e9, "ns")) for report in (before, after))
    ratio = before.seconds / after.seconds
    speed = (
        "the same" if ratio == 1 else f"{ratio:.3g} times as fast" if ratio > 1 else f"{1 / ratio:.3g} times as slow"
    )
    return (
        f"baseline  {before.header.title}\n          {before.verdict.text}\n"
        f"current   {after.header.title}\n          {after.verdict.text}\n"
        f"cycles    {before.cycles:,} -> {after.cycles:,} {change_text(before.cycles, after.cycles)}".rstrip()
        + f"\ntime      {' -> '.join(times)}, {speed}\n"
    )
