"""`tailwave sweep`: a workload at many parameters and on many GPUs, as a table."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sim.cli.options import (
    STANDARD_OUTPUT,
    Detail,
    Json,
    Processes,
    check_places,
    complete_gpu,
    complete_metric,
    parse_values,
    split_settings,
    write,
)
from sim.cli.workloads import check_parameters, complete_settings, complete_workload, find_workload

if TYPE_CHECKING:
    import pandas as pd


def sweep(
    workload: Annotated[
        str,
        typer.Argument(
            help="module.function, such as memory.copy; `tailwave run --list` lists them.",
            autocompletion=complete_workload,
        ),
    ],
    settings: Annotated[
        list[str],
        typer.Argument(
            help="Values as key=a,b,c or key=first:last:step (the last one included).", autocompletion=complete_settings
        ),
    ],
    gpu: Annotated[
        list[str], typer.Option(help="Profile name or TOML file; repeatable.", autocompletion=complete_gpu)
    ] = ["h200"],  # noqa: B006
    metric: Annotated[
        list[str] | None,
        typer.Option(help="A metric to add as a column; repeatable.", autocompletion=complete_metric),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the table as CSV; - prints it instead.")] = None,
    json: Json = None,
    detail: Detail = "auto",
    store: Annotated[
        Path | None, typer.Option(help="File that keeps finished points; default: one in the user's cache folder.")
    ] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep no points, and take none from before.")] = False,
    processes: Processes = None,
    dask: Annotated[str, typer.Option(help="Run on the Dask cluster at this address, such as tcp://host:8786.")] = "",
) -> None:
    """Simulate many parameters and GPUs, as a table.

    It has a row for every combination of values, on every GPU. Finished points are kept, so
    a stopped sweep goes on where it was. A point that fails is a row with its error, and the
    exit code is 1 then.

    \b
    Examples:
      tailwave sweep matmul.tiled n=64:128:64 tile=16,32 --gpu a100_sxm_40gb --gpu h200
      tailwave sweep memory.strided n=4096 stride=1,2,4,8 --metric dram__sectors_read.sum --csv stride.csv
    """
    from sim.sweeps import SweepStopped
    from sim.sweeps import sweep as run_sweep

    function = find_workload(workload)
    grid = {key: parse_values(text) for key, text in split_settings(settings).items()}
    check_parameters(workload, function, {key: values[0] for key, values in grid.items()})
    if store is not None and no_store:
        raise typer.BadParameter("give --store or --no-store, not both")
    check_places(csv, json)
    try:
        with _client(dask) as client:
            frame = run_sweep(
                function, grid, gpu, metric or (), processes=processes, executor=client, detail=detail,
                store=None if no_store else store or True,
            )  # fmt: skip
    except SweepStopped as stopped:
        typer.echo(f"tailwave: {stopped}", err=True)
        raise typer.Exit(130) from None
    if STANDARD_OUTPUT not in (csv, json):
        typer.echo(table_text(frame))
    write(csv, lambda: frame.to_csv(index=False, lineterminator="\n"))
    write(json, lambda: frame.to_json(orient="records", indent=1) + "\n")
    raise typer.Exit(tell_failures(frame, list(grid)))


def _client(address: str) -> AbstractContextManager[Any]:
    """A client of the cluster; nothing when no address is given."""
    if not address:
        return nullcontext()
    try:
        from dask.distributed import Client
    except ImportError:
        raise typer.BadParameter("--dask needs the extra: pip install 'tailwave[cluster]'") from None
    try:
        return Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"--dask {address}: {error}") from None


def table_text(frame: pd.DataFrame) -> str:
    """The table without errors; ten digits at most."""
    shown = frame.drop(columns="error")
    return shown.to_string(index=False, float_format=lambda value: f"{value:.6g}", na_rep="-")


def tell_failures(frame: pd.DataFrame, names: list[str]) -> int:
    """A line on standard error for each failed point; the exit code."""
    failed = frame[frame["error"] != ""]
    for _, row in failed.iterrows():
        where = " ".join(f"{name}={row[name]}" for name in (*names, "gpu"))
        typer.echo(f"tailwave: {where} failed: {row['error']}", err=True)
    return int(len(failed) > 0)
