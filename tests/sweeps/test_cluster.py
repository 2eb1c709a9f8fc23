"""Sweeps on a Dask cluster of separate worker processes, one of which is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sim.launch import Launch
from sim.sweeps import SweepError, sweep
from workloads import memory

distributed = pytest.importorskip("distributed")
GRID = {"n": [-1, *range(100, 160)]}


@pytest.fixture(scope="module")
def client(compiled: None) -> Iterator[Any]:
    """A client of two workers, each a process that a nanny starts again when it dies."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def local() -> Any:
    return sweep(memory.copy, GRID, "toy", processes=1, progress=False, store=None)


def test_a_cluster_gives_the_frame_of_this_machine(client: Any) -> None:
    assert len(set(client.run(os.getpid).values()) | {os.getpid()}) == 3
    frame = sweep(memory.copy, GRID, "toy", executor=client, progress=False, store=None)
    assert frame.equals(local())
    assert frame["error"].iloc[0].startswith("ValueError: n=-1")


def test_a_killed_worker_costs_no_point(client: Any, tmp_path: Any) -> None:
    store, killed, finished = tmp_path / "points.jsonl", [], []

    def kill_one() -> None:
        while not store.exists() or store.read_bytes().count(b"\n") < 5:
            time.sleep(0.01)
        killed.append(next(iter(client.run(os.getpid).values())))
        os.kill(killed[0], signal.SIGKILL)
        finished.append(store.read_bytes().count(b"\n"))

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    frame = sweep(memory.copy, GRID, "toy", executor=client, progress=False, store=store)
    killer.join()
    assert 5 <= finished[0] < len(frame) - 5, "the worker was killed too late to show anything"
    assert frame.equals(local())
    client.wait_for_workers(2, timeout=60)
    assert killed[0] not in client.run(os.getpid).values()


def test_a_point_that_kills_every_worker_is_a_row_and_the_others_go_on(client: Any) -> None:
    def deadly(n: int) -> Launch:  # travels by value
        if n == 33:
            os.kill(os.getpid(), signal.SIGKILL)
        return memory.copy(n)

    frame = sweep(deadly, {"n": [32, 33, 34]}, "toy", executor=client, progress=False, store=None)
    assert frame["error"].iloc[1].startswith("KilledWorker: ")
    assert frame["error"].iloc[[0, 2]].tolist() == ["", ""]


def test_any_executor_serves() -> None:
    with ThreadPoolExecutor(1) as pool:
        frame = sweep(memory.copy, {"n": [32, 64]}, "toy", executor=pool, progress=False, store=None)
    assert frame["error"].tolist() == ["", ""]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"executor": 3}, "executor=3: give a dask.distributed.Client"), ({"executor": 3, "processes": 2}, "one of them")],
)
def test_what_cannot_run_points_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SweepError, match=message):
        sweep(memory.copy, {"n": [32]}, "toy", progress=False, store=None, **options)
