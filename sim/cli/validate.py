"""`tailwave validate`: simulate launches that a card was measured with, and show how near they come."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sim.cli.options import Detail, Gpu, Processes
from sim.files import check_place, whole_file

if TYPE_CHECKING:
    import pandas as pd

    from validation.compare import Summary
    from validation.suite import Case


def choose_cases(folder: Path, limit: float, classes: list[str], kernels: list[str]) -> list[Case]:
    """The launches asked for, in the suite's order; unknown classes and kernels are refused."""
    from validation.suite import CLASS_OF, CLASSES, COUNTERS, INSTRUCTIONS, LISTING, all_cases, card

    for option, given, known in (("--class", classes, list(CLASSES)), ("--kernel", kernels, list(CLASS_OF))):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise typer.BadParameter(f"{option} {unknown[0]}: there are {', '.join(known)}")
    missing = [name for name in (LISTING, COUNTERS) if not (folder / name).is_file()]
    if missing:
        raise typer.BadParameter(f"there is no {missing[0]} in {folder}: say with --suite where the suite is")
    counters = card(folder)
    chosen = [
        case
        for case in all_cases()
        if (not classes or case.group in classes)
        and (not kernels or case.name in kernels)
        and case.id in counters
        and counters[case.id][INSTRUCTIONS] <= limit
    ]
    if not chosen:
        raise typer.BadParameter(f"no such launch has at most {limit:,.0f} warp instructions; --limit says how many")
    return chosen


def validate(
    gpu: Gpu = "h200",
    limit: Annotated[float, typer.Option(help="Most warp instructions of a launch, such as 2e7.")] = math.inf,
    classes: Annotated[list[str] | None, typer.Option("--class", help="Only this class; repeatable.")] = None,
    kernels: Annotated[list[str] | None, typer.Option("--kernel", help="Only this kernel; repeatable.")] = None,
    suite: Annotated[Path | None, typer.Option(help="Folder with kernels.sass.gz and kernels_counters.csv.")] = None,
    output: Annotated[Path, typer.Option(help="Table to write; the picture goes beside it.")] = Path("validate.csv"),
    detail: Detail = "auto",
    processes: Processes = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Simulate again what an earlier run has finished.")] = False,
) -> None:
    """Compare compiled kernels with the measured card.

    Writes a table of all launches and a picture, and prints the mean error by class. All launches take half an hour of
    one core, those of up to 20 million warp instructions five minutes; those above 50 million are sampled, but for
    --detail full, which takes an hour more. Finished launches are kept beside the table, so a stopped run goes on where
    it was.

    \b
    Example:
      tailwave validate --class streaming --limit 1e6
    """
    from sim.profile import load_profile
    from sim.sweeps import SweepStopped, sweep
    from validation.compare import METRICS, comparison, summaries
    from validation.suite import INSTRUCTIONS, LISTING, SUITE, card, launch

    folder = suite or SUITE
    name = load_profile(gpu).gpu.name
    cases = choose_cases(folder, limit, classes or [], kernels or [])
    if output.suffix.lower() != ".csv":
        raise typer.BadParameter(f"--output {output}: give a file name that ends in .csv")
    check_place(output)
    store = output.with_suffix(".jsonl")
    if fresh:
        store.unlink(missing_ok=True)
    largest_first = sorted(cases, key=lambda case: -card(folder)[case.id][INSTRUCTIONS])
    grid = {"label": [case.label for case in largest_first], "folder": [str(folder)]}
    try:
        frame = sweep(
            launch, grid, gpu, METRICS, processes=processes, store=store, reads=[folder / LISTING], detail=detail
        )
    except SweepStopped as stopped:
        typer.echo(str(stopped), err=True)
        raise typer.Exit(130) from None
    failed = frame[frame["error"] != ""]
    for label, error in zip(failed["label"], failed["error"], strict=True):
        typer.echo(f"{label} failed: {error}", err=True)
    table = comparison(cases, frame[frame["error"] == ""], card(folder))
    if table.empty:
        raise typer.Exit(1)
    with whole_file(output) as partial:
        table.to_csv(partial, index=False)
    show(summaries(table))
    typer.echo(str(output))
    typer.echo(str(_draw(table, name, output.with_suffix(".png"))))
    if len(failed):
        raise typer.Exit(1)


def _draw(table: pd.DataFrame, gpu: str, picture: Path) -> Path:
    from sim.plot.correlation import draw_correlation
    from sim.plot.figure import save_figure
    from validation.compare import correlation, summaries

    total = summaries(table)[-1]
    r = correlation(zip(table["card_cycles"], table["cycles"], strict=True))
    note = f"{total.launches} launches, mean error {total.mean_error:.1%}, correlation of logarithms {r:.4f}"
    return save_figure(draw_correlation(table, f"Cycles of compiled kernels, {gpu}", note), picture)


def show(lines: list[Summary]) -> None:
    """The table by class, on the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Column, Table

    heads = ("launches", "mean error", "counters differ", "same top stall", "farthest")
    table = Table(
        Column("class", no_wrap=True),
        *(Column(head, justify="right") for head in heads),
        Column("", overflow="fold"),
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for line in lines:
        if line is lines[-1]:
            table.add_section()
        table.add_row(
            line.name,
            str(line.launches),
            f"{line.mean_error:.1%}",
            str(line.differing),
            f"{line.same_stall:.0%}",
            f"{line.worst:+.1%}",
            line.worst_launch,
        )
    console = Console()
    if not console.is_terminal:
        console.width = 120
    console.print(table)
