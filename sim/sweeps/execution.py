"""Where points run: in this process, in processes of this machine, or on a cluster."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for_handles
from types import ModuleType
from typing import Any

from sim.launch import is_integer
from sim.sweeps.errors import SweepError
from sim.sweeps.point import Point, Row, failed, simulate_point

MOST_SUBMITTED = 1000  #: points that a cluster holds at a time; each carries its profile, 20 KB
_HAS_MASKS = hasattr(signal, "pthread_sigmask")  #: not so on Windows
Finished = tuple[Point, Row]


def run_points(points: Sequence[Point], processes: int | None, executor: Any) -> Iterator[Finished]:
    """Finished points with their rows, as they finish: in their order here, the largest first elsewhere.

    `executor` is a cluster's client, or an executor; `processes` are for this machine.
    """
    if executor is not None and processes is not None:
        raise SweepError("processes= is for this machine, executor= for another; give one of them")
    largest_first = deque(sorted(points, key=_size, reverse=True))  # so that processes end together
    if executor is not None:
        # A client is no executor but has one; points are not pure to it, or one that failed would never run again.
        pool = executor.get_executor(pure=False) if hasattr(executor, "get_executor") else executor
        if not hasattr(pool, "submit"):
            raise SweepError(
                f"executor={executor!r:.60}: give a dask.distributed.Client or a concurrent.futures.Executor"
            )
        return _on_executor(largest_first, pool)
    count = process_count(points, processes)
    return _in_processes(largest_first, count) if count > 1 else _here(points)


def _here(points: Sequence[Point]) -> Iterator[Finished]:
    for point in points:
        yield point, simulate_point(point)


def process_count(points: Sequence[Point], processes: int | None) -> int:
    """How many processes to use: 1 also when other processes could not import the workload."""
    if processes is not None and (not is_integer(processes) or processes < 1):
        raise SweepError(f"processes={processes!r}: must be an integer of at least 1")
    if not points or not _importable(points[0].workload):
        return 1
    return max(1, min(processes or os.cpu_count() or 1, len(points)))


def _importable(workload: Any) -> bool:
    module = sys.modules.get(getattr(workload, "__module__", ""), None)
    here = module is None or module.__name__ == "__main__"
    return not here and getattr(module, getattr(workload, "__qualname__", ""), None) is workload


def _size(point: Point) -> float:
    """A guess at the work of a point: the product of its whole-number parameters."""
    return math.prod(v for v in point.params.values() if isinstance(v, int) and not isinstance(v, bool) and v > 0)


# -- a cluster ---------------------------------------------------------------------------


def _on_executor(queue: deque[Point], pool: Executor) -> Iterator[Finished]:
    """Points run by somebody else's executor, which tries them again elsewhere when a worker dies."""
    running: dict[Future[Row], Point] = {}
    try:
        while queue or running:
            while queue and len(running) < MOST_SUBMITTED:
                point = queue.popleft()
                running[pool.submit(simulate_point, point)] = point
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                point = running.pop(future)
                try:
                    row = future.result()
                except CancelledError:
                    raise SweepError("the cluster dropped the sweep (closed?); points that finished are kept") from None
                except Exception as error:  # such as a workload that its workers cannot import
                    row = failed(point, error.with_traceback(None))
                yield point, row
    finally:
        for future in running:
            future.cancel()


# -- processes of this machine -----------------------------------------------------------


def _in_processes(queue: deque[Point], processes: int) -> Iterator[Finished]:
    """Points run in processes; one that its process dies of becomes a row, and the others go on."""
    while queue:
        suspects = yield from _until_one_dies(queue, processes)
        for point in suspects:  # each by itself, which tells whose process dies
            if (yield from _until_one_dies(deque([point]), 1)):
                yield point, failed(point, MemoryError("its process died: killed, or out of memory"))


def _until_one_dies(queue: deque[Point], processes: int) -> Generator[Finished, None, list[Point]]:
    """Run the queue's points in new processes. If one dies, returns those that were running then."""
    before = set(multiprocessing.active_children())
    # Spawned, not forked: the parent may have threads, and compiled code does not survive a fork well.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_begin)
    running: dict[Future[Row], Point] = {}
    try:
        while queue or running:
            with _starting_processes():
                while queue and len(running) < processes:  # no more, so that few are in doubt when a process dies
                    point = queue[0]  # taken out once it is submitted, which fails when a process has died
                    running[pool.submit(simulate_point, point)] = point
                    queue.popleft()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                try:
                    row = future.result()
                except BrokenProcessPool:
                    raise
                except Exception as error:  # such as parameters that do not travel
                    row = failed(running[future], error.with_traceback(None))
                yield running.pop(future), row
        pool.shutdown()
    except BrokenProcessPool:
        pool.shutdown(wait=False, cancel_futures=True)
        return list(running.values())
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    return []


@contextmanager
def _starting_processes() -> Iterator[None]:
    """Processes that start here do not run the caller's script again, and never see Ctrl-C.

    So a sweep needs no `if __name__ == "__main__"`. They inherit that the signal is blocked; here, one
    that comes meanwhile is neither lost nor leaves a process half started: it waits for the end.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    came: list[int] = []
    here = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number)) if here else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if _HAS_MASKS else set()
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        if _HAS_MASKS:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if here:
            signal.signal(signal.SIGINT, handler or signal.SIG_DFL)
        if came:
            signal.raise_signal(signal.SIGINT)


def _begin() -> None:
    """What a process of a sweep does first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; only the parent acts
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is gone: a pool's processes would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_handles([parent.sentinel])
        os._exit(1)
