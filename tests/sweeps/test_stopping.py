"""Sweeps that are killed, whose processes are killed, and what they leave in memory."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sim.compilation import ensure_compiled
from sim.device import Device
from sim.engine import Engine
from sim.memory_system import MemorySystem
from sim.profile import load_profile
from sim.sweeps import sweep
from sim.sweeps.keys import model_version
from sim.sweeps.point import Point, simulate_point
from workloads import memory

POINTS = 200
SCRIPT = f"""
import sys
import sim
from workloads import memory
print("ready", flush=True)
sim.sweep(memory.copy, {{"n": range(100, {100 + POINTS})}}, "toy", processes=2, progress=False, store=sys.argv[1])
"""


def wait_until(what: str, seconds: float, done: object) -> None:
    deadline = time.monotonic() + seconds
    while not done():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_sweep_killed_at_a_random_moment_goes_on_and_ends_with_the_rows_of_an_uninterrupted_one(
    tmp_path: Path,
) -> None:
    ensure_compiled()
    script, store = tmp_path / "script.py", tmp_path / "points.jsonl"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    seed = random.SystemRandom().randrange(1 << 30)
    moment = random.Random(seed)
    process = subprocess.Popen([sys.executable, script, store], env=environment, stdout=subprocess.PIPE)
    try:
        points = moment.randrange(1, POINTS - 20)
        wait_until("a point", 120, lambda: store.exists() and store.read_bytes().count(b"\n") >= points)
        time.sleep(moment.random() / 20)
        workers = children(process.pid)
    finally:
        process.kill()
        process.communicate()
    kept = store.read_bytes().count(b"\n")
    assert points <= kept < POINTS, f"killed too late to show anything, seed {seed}"
    wait_until("the processes of the killed sweep end", 20, lambda: not any(map(alive, workers)))

    grid = {"n": range(100, 100 + POINTS)}
    resumed = sweep(memory.copy, grid, "toy", processes=1, progress=False, store=store)
    whole = sweep(memory.copy, grid, "toy", processes=1, progress=False, store=None)
    assert resumed.equals(whole) and len(whole) == POINTS, f"seed {seed}"
    assert not (whole["error"] != "").any()
    keys = [json.loads(line)["key"] for line in store.read_text().splitlines() if line.endswith("}}")]
    assert len(keys) == len(set(keys)) == POINTS, f"a finished point was run again, seed {seed}"


def test_a_point_that_kills_its_process_is_a_row_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deadly_workload.py").write_text(
        "import os, signal\nfrom workloads import memory\n\n\ndef work(n):\n"
        "    if n == 64:\n        os.kill(os.getpid(), signal.SIGKILL)\n    return memory.copy(n)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import deadly_workload  # type: ignore[import-not-found]

    frame = sweep(deadly_workload.work, {"n": [32, 64, 96, 128]}, "toy", processes=2, progress=False, store=None)
    assert frame["n"].tolist() == [32, 64, 96, 128]
    assert frame["error"].tolist() == ["", "MemoryError: its process died: killed, or out of memory", "", ""]


def test_a_finished_point_leaves_nothing_of_its_simulation_in_memory() -> None:
    def parts() -> int:
        return sum(isinstance(thing, Engine | Device | MemorySystem) for thing in gc.get_objects())

    gc.collect()
    before = parts()
    for n in (32, -1):  # -1 fails
        simulate_point(Point(memory.copy, {"n": n}, load_profile("toy"), (), "full", model_version()))
        assert parts() == before


def test_a_process_with_other_sources_refuses_its_point() -> None:
    row = simulate_point(Point(memory.copy, {"n": 32}, load_profile("toy"), (), "full", "of another package"))
    assert "other sources of Tailwave" in row["error"] and "cycles" not in row
