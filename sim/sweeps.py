"""Sweeps: a workload at many sizes and on many GPUs, in parallel processes, as a table."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import math
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sim.launch import Launch, is_integer
from sim.profile import Profile, load_profile, names
from sim.report.metrics import TABLE, unknown_metric
from sim.sampling import DETAILS

if TYPE_CHECKING:
    import pandas as pd

Workload = Callable[..., Launch]
Gpu = str | os.PathLike[str] | Profile
_RECORD_START = b'{"key": "'
RESULT_COLUMNS = ("cycles", "tflops", "tiles", "waves", "tail_blocks", "tail_utilization")


class SweepError(ValueError):
    """A sweep that cannot be run as asked."""


class SweepStopped(KeyboardInterrupt):
    """Ctrl-C during a sweep. `frame` holds the finished points; the message says how to go on."""

    def __init__(self, message: str, frame: pd.DataFrame) -> None:
        super().__init__(message)
        self.frame = frame


@dataclass(frozen=True)
class Point:
    """One simulation of a sweep, in a form that travels to another process."""

    workload: Workload
    params: Mapping[str, Any]
    gpu: str  #: profile name or file
    overrides: tuple[tuple[str, Any], ...]
    metrics: tuple[str, ...]
    detail: str
    key: str  #: equal for equal inputs and sources

    def profile(self) -> Profile:
        profile = load_profile(self.gpu)
        return profile.override(dict(self.overrides)) if self.overrides else profile


def sweep(
    workload: Workload,
    grid: Mapping[str, Iterable[Any]],
    gpu: Gpu | Sequence[Gpu] = "h200",
    metrics: str | Sequence[str] = (),
    processes: int | None = None,
    progress: bool = True,
    store: str | os.PathLike[str] | None = None,
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
    lambda, runs here too. With `store`, each finished point is added to that file
    as a line of JSON, and a later sweep takes from it what it already has; failed
    points are tried again. A point is valid for one state of the sources, and of the
    files that the workload `reads`.
    `detail` is as in `sim.simulate`.

    Raises `SweepError` for an empty grid, parameters that the workload does not take, unknown metrics,
    `ProfileError` for an unknown GPU, `SweepStopped` on Ctrl-C.
    """
    metrics = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if detail not in DETAILS:
        raise SweepError(f"detail={detail!r}: use {', '.join(map(repr, DETAILS))}")
    points = _points(workload, grid, gpu, metrics, reads, detail)
    done = _load(store)
    rows = {point.key: done[point.key] for point in points if point.key in done}
    todo = [point for point in points if point.key not in rows]
    if todo:
        _compile_first()
    varied = [name for name in (*points[0].params, "gpu") if len({_name_of(point, name) for point in points}) > 1]
    bar = _Progress(len(points), len(rows), varied) if progress else None
    try:
        with bar or nullcontext():
            for point, row in _run(todo, _process_count(workload, processes, len(todo))):
                rows[point.key] = row
                if store is not None and not row["error"]:
                    _append(Path(store), {"key": point.key, "row": row})
                if bar is not None:
                    bar.advance(row)
    except KeyboardInterrupt:
        message = f"stopped after {len(rows)} of {len(points)} points; " + (
            f"they are kept in {store}: run the same sweep again to go on"
            if store is not None
            else "nothing was stored: give store=FILE to be able to go on"
        )
        raise SweepStopped(message, _frame(points, rows, metrics)) from None
    return _frame(points, rows, metrics)


def _compile_first() -> None:
    """Compile before the processes and the bar start: one compiles, and says so, on a line of its own."""
    from sim.compilation import ensure_compiled

    ensure_compiled()


def _points(
    workload: Workload,
    grid: Mapping[str, Iterable[Any]],
    gpu: Gpu | Sequence[Gpu],
    metrics: tuple[str, ...],
    reads: Sequence[str | os.PathLike[str]] = (),
    detail: str = "auto",
) -> list[Point]:
    """Every combination, with its key; unusable input is refused before anything runs."""
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
    described = [_describe(each) for each in gpus]
    code = _digest([_source_digest(workload), *(hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in reads)])
    points = []
    for name, overrides, digest in described:
        for values in itertools.product(*axes.values()):
            params = dict(zip(axes, values, strict=True))
            key = _digest([_qualified_name(workload), repr(sorted(params.items())), digest, code, detail, *metrics])
            points.append(Point(workload, params, name, overrides, metrics, detail, key))
    return points


def _values(name: str, values: Any) -> list[Any]:
    """The values of a parameter; NumPy's numbers as Python's, which make the same kernel as a direct call does."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise SweepError(f"{name} needs a list of values, such as [{values!r}], not {values!r}")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _check_names(workload: Workload, axes: Mapping[str, Any], metrics: tuple[str, ...]) -> None:
    """Refuse parameters that the workload does not take or lacks, columns that would be there twice, and no metrics."""
    try:
        inspect.signature(workload).bind(**axes)
    except TypeError as error:
        raise SweepError(f"{_qualified_name(workload)}{inspect.signature(workload)}: {error}") from None
    except ValueError:  # a callable that has no signature
        pass
    twice = [name for name in axes if name in ("gpu", "error", *RESULT_COLUMNS)]
    if twice:
        raise SweepError(f"parameter {twice[0]!r} has the name of a column of results; give it another one")
    for metric in metrics:
        if metric not in TABLE:
            raise SweepError(str(unknown_metric(metric).args[0]))


def _describe(gpu: Gpu) -> tuple[str, tuple[tuple[str, Any], ...], str]:
    """What another process needs to load the profile, and a digest of its values."""
    profile = load_profile(gpu)
    values = {key: quantity.value for key, quantity in profile.quantities.items()}
    digest = _digest([profile.name, json.dumps(values, sort_keys=True)])
    if isinstance(gpu, Profile):
        if gpu.name not in names():
            raise SweepError(f"profile {gpu.name!r} comes from a file: give the file's path instead of the Profile")
        return gpu.name, gpu.overrides, digest
    return os.fspath(gpu), (), digest


def _qualified_name(workload: Workload) -> str:
    return f"{getattr(workload, '__module__', '?')}.{getattr(workload, '__qualname__', repr(workload))}"


def _source_digest(workload: Workload) -> str:
    """Digest of what decides a result besides its inputs: this package's version and sources, the workload's file."""
    try:
        release = version("tailwave")
    except PackageNotFoundError:
        release = "uninstalled"
    package = Path(__file__).parent
    shown = [package / "cli", package / "plot"]  # what these do comes after a result
    files = sorted(
        [
            *(file for file in package.rglob("*.py") if file.parent not in shown),
            *(package.parent / "workloads").glob("*.py"),
        ]
    )
    module = sys.modules.get(getattr(workload, "__module__", ""), None)
    own = getattr(module, "__file__", None)
    if own and Path(own) not in files:
        files.append(Path(own))
    return _digest([release, *(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file())])


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _process_count(workload: Workload, processes: int | None, points: int) -> int:
    """How many processes to use: 1 also when other processes could not import the workload."""
    if processes is not None and (not is_integer(processes) or processes < 1):
        raise SweepError(f"processes={processes!r}: must be an integer of at least 1")
    module = sys.modules.get(getattr(workload, "__module__", ""), None)
    importable = module is not None and module.__name__ != "__main__"
    if not importable or getattr(module, getattr(workload, "__qualname__", ""), None) is not workload:
        return 1
    return max(1, min(processes or os.cpu_count() or 1, points))


def _run(points: Sequence[Point], processes: int) -> Iterator[tuple[Point, dict[str, Any]]]:
    """Finished points with their rows, as they finish."""
    if processes == 1:
        for point in points:
            yield point, run_point(point)
        return
    before = set(multiprocessing.active_children())
    # Spawned, not forked: the parent may have threads, and compiled code does not survive a fork well.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_ignore_interrupt)
    try:
        # The largest points first, so that the processes end together.
        with _starting_processes():
            futures: dict[Future[dict[str, Any]], Point] = {
                pool.submit(run_point, point): point for point in sorted(points, key=_size, reverse=True)
            }
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool:
                raise SweepError(
                    "a process of the sweep died (killed, or out of memory?): "
                    "use fewer processes; points that finished are kept"
                ) from None
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise


@contextmanager
def _starting_processes() -> Iterator[None]:
    """Processes that start here do not run the caller's script again, and from the first moment ignore Ctrl-C.

    So a sweep needs no `if __name__ == "__main__"`, and a Ctrl-C that comes while they start ends it as one.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    here = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if here else None
    try:
        yield
    finally:
        if here:
            signal.signal(signal.SIGINT, handler or signal.SIG_DFL)
        sys.modules["__main__"] = main


def _ignore_interrupt() -> None:
    """Ctrl-C reaches every process of a terminal; only the parent acts on it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _size(point: Point) -> float:
    """A guess at the work of a point: the product of its whole-number parameters."""
    return math.prod(v for v in point.params.values() if isinstance(v, int) and not isinstance(v, bool) and v > 0)


def run_point(point: Point) -> dict[str, Any]:
    """Simulate one point; a failure becomes a row with its error."""
    row: dict[str, Any] = {**{name: _plain(value) for name, value in point.params.items()}, "gpu": point.gpu}
    try:
        from sim.device import simulate

        launch = point.workload(**point.params)
        report = simulate(launch, gpu=point.profile(), detail=point.detail)
        row |= {
            "gpu": point.profile().label,
            "cycles": report.cycles,
            "tflops": launch.flops / report.seconds / 1e12,
            "tiles": launch.facts.get("tiles", launch.blocks),
            "waves": report.waves,
            "tail_blocks": int(report["tailwave__last_wave_blocks"]),
            "tail_utilization": report.tail_utilization,
            **{metric: _plain(report[metric]) for metric in point.metrics},
            "error": "",
        }
    except Exception as error:  # whatever a workload raises belongs in its row
        where = traceback.extract_tb(error.__traceback__)[-1]
        row["error"] = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
    return row


def _plain(value: Any) -> Any:
    """A value as JSON keeps it."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, tuple) and all(isinstance(part, int) for part in value):
        return "x".join(map(str, value))  # a tile, a block
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _frame(points: Sequence[Point], rows: Mapping[str, dict[str, Any]], metrics: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    columns = [*points[0].params, "gpu", *RESULT_COLUMNS, *metrics, "error"]
    return pd.DataFrame([rows[point.key] for point in points if point.key in rows], columns=columns)


def _load(store: str | os.PathLike[str] | None) -> dict[str, dict[str, Any]]:
    """Rows of a store by key. A line that was cut short when a sweep died is as if it were not there.

    Raises `SweepError` when the file holds anything else: it is not a store, and must not be added to.
    """
    if store is None or not Path(store).exists():
        return {}
    rows = {}
    for number, line in enumerate(Path(store).read_bytes().split(b"\n"), 1):
        try:
            record = json.loads(line)
            rows[record["key"]] = record["row"]
        except (ValueError, KeyError, TypeError):
            if not _RECORD_START.startswith(line[: len(_RECORD_START)]):
                raise SweepError(
                    f"{store}, line {number}: not a record of a sweep; give another file as store"
                ) from None
    return rows


def _append(store: Path, record: Mapping[str, Any]) -> None:
    """Add one line in a single write, after ending a line that an earlier run left unfinished."""
    store.parent.mkdir(parents=True, exist_ok=True)
    with open(store, "ab+", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        unfinished = False
        if size:
            file.seek(size - 1)
            unfinished = file.read(1) != b"\n"
        file.write((b"\n" if unfinished else b"") + json.dumps(record).encode() + b"\n")


def _name_of(point: Point, column: str) -> str:
    return str(point.gpu if column == "gpu" else point.params[column])


class _Progress(AbstractContextManager["_Progress"]):
    """A bar with points done, time left and what finished last, by the columns that vary."""

    def __init__(self, total: int, done: int, varied: Sequence[str]) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("simulating"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        self._varied = varied
        self._task = self._progress.add_task("starting" if done < total else "", total=total, completed=done)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def advance(self, row: Mapping[str, Any]) -> None:
        """Count a finished point and name it."""
        named = " ".join(f"{name}={row[name]}" for name in self._varied)
        state = f"failed: {named}" if row["error"] else named
        self._progress.update(self._task, advance=1, description=state)
