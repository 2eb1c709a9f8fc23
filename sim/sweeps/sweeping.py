"""`sim.sweep`: every combination of parameters, on every GPU, as a frame with a row a point."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.launch import Launch
from sim.profile import Profile, load_profile
from sim.report.metrics import TABLE, unknown_metric
from sim.sampling import DETAILS
from sim.sweeps import store as stores
from sim.sweeps.errors import SweepError, SweepStopped
from sim.sweeps.execution import run_points
from sim.sweeps.keys import key_maker, model_version, name_of
from sim.sweeps.point import RESULT_COLUMNS, Point, Row
from sim.sweeps.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

Workload = Callable[..., Launch]
Gpu = str | os.PathLike[str] | Profile


def sweep(
    workload: Workload,
    grid: Mapping[str, Iterable[Any]],
    gpu: Gpu | Sequence[Gpu] = "h200",
    metrics: str | Sequence[str] = (),
    *,
    processes: int | None = None,
    executor: Any = None,
    progress: bool = True,
    store: str | os.PathLike[str] | bool | None = True,
    reads: Sequence[str | os.PathLike[str]] = (),
    detail: str = "auto",
) -> pd.DataFrame:
    """Simulate `workload(**params)` for every combination in `grid`, on every GPU.

    Returns a frame with a row a point, in the grid's order and the GPUs' order: the
    parameters, `gpu`, `cycles`, `tflops` (of the launch's useful operations), `tiles`
    (blocks, or what the workload counts as tiles), `waves`, `tail_blocks` (in the
    last wave), `tail_utilization`, the report's `metrics` by name, and `error`: empty,
    or why the point failed.

    Points run in `processes` processes (default: as many as the machine has cores;
    1 runs them here). A workload that other processes cannot import, such as a
    lambda, runs here too. With `executor`, a `dask.distributed.Client`, they run on
    its cluster, whose workers must have the same Tailwave; any
    `concurrent.futures.Executor` serves as well. The frame is the same wherever
    points run.

    Each finished point is kept: in the user's cache folder, in the file `store`, or
    not at all (`None`). A later sweep takes from there what it already has, so one
    that was stopped in any way goes on; failed points are tried again. A kept point
    is valid for one state of the sources, the profile, and the files that the
    workload `reads`. The cache keeps nothing of workloads that come from no file.
    `detail` is as in `sim.simulate`.

    Raises `SweepError` for an empty grid, parameters that the workload does not take, unknown metrics,
    `ProfileError` for an unknown GPU, `SweepStopped` on Ctrl-C.
    """
    metrics = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if detail not in DETAILS:
        raise SweepError(f"detail={detail!r}: use {', '.join(map(repr, DETAILS))}")
    points = expand(workload, grid, gpu, metrics, detail)
    path, keys = _kept_in(store, points, reads)
    kept = stores.load(path) if path is not None else {}
    rows = {index: kept[key] for index, key in enumerate(keys) if key in kept}
    todo = {id(point): index for index, point in enumerate(points) if index not in rows}
    finished = run_points([points[index] for index in todo.values()], processes, executor)
    if todo and executor is None:
        _compile_first()
    bar = Progress(len(points), len(rows), _varied(points)) if progress else None
    try:
        with bar or nullcontext():
            for point, row in finished:
                index = todo[id(point)]
                rows[index] = row
                if path is not None and not row["error"]:
                    stores.add(path, keys[index], row)
                if bar is not None:
                    bar.advance(row)
    except KeyboardInterrupt:
        message = f"stopped after {len(rows)} of {len(points)} points; " + (
            f"they are kept in {path}: run the same sweep again to go on"
            if path is not None
            else "nothing was stored: give store=FILE to be able to go on"
        )
        raise SweepStopped(message, _frame(points, rows)) from None
    return _frame(points, rows)


def expand(
    workload: Workload,
    grid: Mapping[str, Iterable[Any]],
    gpu: Gpu | Sequence[Gpu],
    metrics: tuple[str, ...],
    detail: str,
) -> list[Point]:
    """Every combination; unusable input is refused before anything runs."""
    if not callable(workload):
        raise SweepError(f"workload must be a function that returns a Launch, not {workload!r}")
    if not isinstance(grid, Mapping):
        raise SweepError(f'the grid must be a dict of lists, such as {{"n": [256, 512]}}, not {grid!r}')
    axes = {name: _values(name, values) for name, values in grid.items()}
    empty = [name for name, values in axes.items() if not values]
    if not axes or empty:
        raise SweepError(f"nothing to sweep: {f'no values for {empty[0]!r}' if empty else 'the grid is empty'}")
    _check_names(workload, axes, metrics)
    gpus = [gpu] if isinstance(gpu, str | os.PathLike | Profile) else _values("gpu", gpu)
    if not gpus:
        raise SweepError("nothing to sweep: no GPU given")
    return [
        Point(workload, dict(zip(axes, values, strict=True)), profile, metrics, detail, model_version())
        for profile in map(load_profile, gpus)
        for values in itertools.product(*axes.values())
    ]


def _values(name: str, values: Any) -> list[Any]:
    """The values of a parameter; NumPy's numbers as Python's, which make the same kernel as a direct call does."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise SweepError(f"{name} needs a list of values, such as [{values!r}], not {values!r}")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _check_names(workload: Workload, axes: Mapping[str, Any], metrics: tuple[str, ...]) -> None:
    """Refuse parameters that the workload does not take or lacks, columns that would be there twice, and no metrics."""
    try:
        signature = inspect.signature(workload)
    except ValueError:  # a callable that has none
        signature = None
    try:
        if signature is not None:
            signature.bind(**axes)
    except TypeError as error:
        raise SweepError(f"{name_of(workload)}{signature}: {error}") from None
    twice = [name for name in axes if name in ("gpu", "error", *RESULT_COLUMNS)]
    if twice:
        raise SweepError(f"parameter {twice[0]!r} has the name of a column of results; give it another one")
    for metric in metrics:
        if metric not in TABLE:
            raise SweepError(str(unknown_metric(metric).args[0]))


def _kept_in(
    store: str | os.PathLike[str] | bool | None, points: Sequence[Point], reads: Sequence[str | os.PathLike[str]]
) -> tuple[Path | None, list[str]]:
    """The file that finished points are kept in, and the points' keys; nothing when they are not kept."""
    if store is None or store is False:
        return None, []
    first = points[0]
    try:
        key = key_maker(first.workload, reads, first.metrics, first.detail)
        keys = [key(point.params, point.profile) for point in points]
    except SweepError:
        if store is True:  # the caller did not ask for it
            return None, []
        raise
    return stores.usual_place(first.workload) if store is True else Path(store), keys


def _compile_first() -> None:
    """Compile before the processes and the bar start: one compiles, and says so, on a line of its own."""
    from sim.compilation import ensure_compiled

    ensure_compiled()


def _varied(points: Sequence[Point]) -> list[str]:
    """The columns in which points differ, for the progress bar."""
    inputs = [point.inputs for point in points]
    return [name for name in inputs[0] if len({str(row[name]) for row in inputs}) > 1]


def _frame(points: Sequence[Point], rows: Mapping[int, Row]) -> pd.DataFrame:
    import pandas as pd

    columns = [*points[0].inputs, *RESULT_COLUMNS, *points[0].metrics, "error"]
    return pd.DataFrame([rows[index] for index in range(len(points)) if index in rows], columns=columns)
