"""Sweeps: rows and their order, failures, stopping and resuming."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardware_profiles
import sim
from sim.compilation import ensure_compiled
from sim.launch import Launch
from sim.profile import ProfileError, load_profile
from sim.sweeps import RESULT_COLUMNS, SweepError, SweepStopped, execution, sweep
from sim.sweeps.point import Point
from workloads import memory


def row_of(point: Point, **more: Any) -> dict[str, Any]:
    """A finished row, without simulating."""
    results = dict.fromkeys(RESULT_COLUMNS, 1)
    return {**point.inputs, **results, **dict.fromkeys(point.metrics, 2.0), "error": "", **more}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """Replaces simulation by an instant row; the list collects what was run."""
    ran: list[Point] = []

    def instant(point: Point) -> dict[str, Any]:
        ran.append(point)
        return row_of(point)

    monkeypatch.setattr(execution, "simulate_point", instant)
    return ran


def quick(grid: dict[str, Any], **options: Any) -> Any:
    return sweep(memory.copy, grid, **{"gpu": "toy", "processes": 1, "progress": False, "store": None, **options})


def test_rows_follow_the_gpus_and_the_grid(runs: list[Point]) -> None:
    frame = quick({"n": [64, 32], "width": [1, 4]}, gpu=["h200", "toy"])
    assert list(zip(frame["gpu"], frame["n"], frame["width"], strict=True)) == [
        (gpu, n, width) for gpu in ("h200", "toy") for n in (64, 32) for width in (1, 4)
    ]


def test_columns_are_parameters_results_metrics_and_error(runs: list[Point]) -> None:
    frame = quick({"n": [32]}, metrics=["smsp__inst_executed.sum"])
    assert list(frame.columns) == ["n", "gpu", *RESULT_COLUMNS, "smsp__inst_executed.sum", "error"]


def test_a_simulated_point_has_the_figures_of_its_report() -> None:
    frame = quick({"n": [300]}, metrics=["smsp__inst_executed.sum"])
    report = sim.simulate(memory.copy(300), gpu="toy")
    row = frame.iloc[0]
    assert (row["cycles"], row["waves"], row["tiles"]) == (report.cycles, report.waves, 2)
    assert row["smsp__inst_executed.sum"] == report["smsp__inst_executed.sum"]
    assert row["error"] == ""


def test_a_failed_point_is_a_row_with_its_error_and_the_others_go_on() -> None:
    frame = quick({"n": [-1, 32]})
    assert frame["error"][0].startswith("ValueError: n=-1: must be a positive integer")
    assert frame["error"][1] == "" and frame["cycles"][1] > 0


def test_a_store_spares_finished_points(runs: list[Point], tmp_path: Path) -> None:
    store = tmp_path / "points.jsonl"
    first = quick({"n": [32, 64]}, store=store)
    again = quick({"n": [32, 64, 96]}, store=store)
    assert [point.params["n"] for point in runs] == [32, 64, 96]
    assert again.iloc[:2].equals(first)


def test_a_failed_point_is_not_stored(tmp_path: Path) -> None:
    store = tmp_path / "points.jsonl"
    quick({"n": [-1]}, store=store)
    assert not store.exists()


def test_a_line_cut_short_is_ignored_and_its_point_runs_again(runs: list[Point], tmp_path: Path) -> None:
    store = tmp_path / "points.jsonl"
    quick({"n": [32, 64]}, store=store)
    store.write_bytes(store.read_bytes()[:-20])
    quick({"n": [32, 64]}, store=store)
    quick({"n": [32, 64]}, store=store)
    assert [point.params["n"] for point in runs] == [32, 64, 64]


def test_a_file_that_is_no_store_is_refused_and_left_alone(runs: list[Point], tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("do not touch")
    with pytest.raises(SweepError, match=r"notes\.txt, line 1: not a record"):
        quick({"n": [32]}, store=notes)
    assert notes.read_text() == "do not touch" and not runs


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(
    runs: list[Point], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = tmp_path / "points.jsonl"
    instant = execution.simulate_point

    def stop_at_the_third(point: Point) -> dict[str, Any]:
        if len(runs) == 2:
            raise KeyboardInterrupt
        return instant(point)

    monkeypatch.setattr(execution, "simulate_point", stop_at_the_third)
    with pytest.raises(SweepStopped, match="stopped after 2 of 4 points.*run the same sweep again") as stopped:
        quick({"n": [1, 2, 3, 4]}, store=store)
    assert list(stopped.value.frame["n"]) == [1, 2]
    monkeypatch.setattr(execution, "simulate_point", instant)
    assert list(quick({"n": [1, 2, 3, 4]}, store=store)["n"]) == [1, 2, 3, 4]
    assert [point.params["n"] for point in runs] == [1, 2, 3, 4]


def test_parallel_rows_equal_serial_ones() -> None:
    grid = {"n": [32, 1000]}
    assert quick(grid, processes=2).equals(quick(grid))


def test_a_profile_of_a_file_goes_to_other_processes_with_its_overrides(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text((hardware_profiles.DIRECTORY / "toy.toml").read_text())
    slow = load_profile(mine).override({"dram.peak_gbytes_per_s": load_profile("toy").dram.peak_gbytes_per_s / 4})
    rows = [quick({"n": [1000, 2000]}, gpu=[mine, slow], processes=processes) for processes in (1, 2)]
    assert rows[0].equals(rows[1])
    assert rows[0]["gpu"].tolist() == ["mine"] * 2 + [slow.label] * 2
    assert (rows[0]["cycles"].iloc[:2].to_numpy() < rows[0]["cycles"].iloc[2:].to_numpy()).all()


def environment() -> dict[str, str]:
    """For scripts that have a minute: the core is compiled, and found from everywhere."""
    ensure_compiled()
    return os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def test_a_script_without_a_guard_for_its_main_part_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sim\n"
        "from workloads import memory\n"
        "print('once')\n"
        "sim.sweep(memory.copy, {'n': [32, 64]}, gpu='toy', processes=2, progress=False)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment(), timeout=60)
    assert (done.returncode, done.stdout) == (0, "once\n"), done.stderr


def test_a_workload_that_others_cannot_import_runs_here(runs: list[Point]) -> None:
    frame = quick({"n": [32]}, processes=4)
    assert len(sweep(lambda n: memory.copy(n), {"n": [32]}, "toy", processes=4, progress=False)) == len(frame)


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ({}, {}, "the grid is empty"),
        ({"n": [32], "width": []}, {}, "no values for 'width'"),
        ([32], {}, "the grid must be a dict of lists"),
        ({"n": 32}, {}, r"n needs a list of values, such as \[32\]"),
        ({"n": "32"}, {}, "n needs a list of values"),
        ({"n": [32], "size": [1]}, {}, "memory.copy.*'size'"),
        ({"width": [1]}, {}, "memory.copy.*missing a required argument: 'n'"),
        ({"n": [32]}, {"gpu": None}, "gpu needs a list of values"),
        ({"n": [32]}, {"processes": 0}, "processes=0"),
        ({"n": [32]}, {"processes": "2"}, "processes='2'"),
        ({"n": [32]}, {"metrics": ["sm__cycles_elapsed.mx"]}, "did you mean 'sm__cycles_elapsed.max'"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_runs(
    runs: list[Point], grid: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SweepError, match=message):
        quick(grid, **options)
    assert not runs


def test_a_parameter_named_as_a_result_is_refused(runs: list[Point]) -> None:
    with pytest.raises(SweepError, match="'waves' has the name of a column"):
        sweep(lambda waves: memory.copy(waves), {"waves": [32]}, "toy", progress=False)


def test_numpys_numbers_give_the_rows_of_pythons() -> None:
    plain, numpys = (quick({"n": sizes}) for sizes in ([64, 96], np.arange(64, 97, 32)))
    assert plain.equals(numpys)


def test_one_metric_may_be_given_by_itself(runs: list[Point]) -> None:
    assert "sm__cycles_active.avg" in quick({"n": [32]}, metrics="sm__cycles_active.avg")


def test_an_unknown_gpu_is_refused_before_anything_runs(runs: list[Point]) -> None:
    with pytest.raises(ProfileError, match="h20O"):
        quick({"n": [32]}, gpu=["toy", "h20O"])
    assert not runs


def test_a_workload_must_be_callable() -> None:
    launch: Launch = memory.copy(32)
    with pytest.raises(SweepError, match="must be a function that returns a Launch"):
        sweep(launch, {"n": [32]}, "toy", progress=False)  # type: ignore[arg-type]


STOPPED_SCRIPT = """
import sys
from sim.sweeps import SweepStopped, sweep
from workloads import waves
if __name__ == "__main__":
    print("ready", flush=True)
    try:
        grid = {"grid": [1], "iters": [10, 20, 10**9]}
        sweep(waves.spin, grid, "toy", processes=2, progress=False, store=sys.argv[1])
    except SweepStopped as stopped:
        print(stopped)
"""


def test_ctrl_c_while_processes_start_is_the_parents_alone_and_not_lost() -> None:
    blocked = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    reached_the_end = False
    with pytest.raises(KeyboardInterrupt):
        with execution._starting_processes():
            os.kill(os.getpid(), signal.SIGINT)
            child = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=True)
            reached_the_end = True
    assert (child.stdout, reached_the_end) == ("True\n", True)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_ctrl_c_ends_the_processes_too(tmp_path: Path) -> None:
    import time

    store, script = tmp_path / "points.jsonl", tmp_path / "stopped.py"
    script.write_text(STOPPED_SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), str(store)], stdout=subprocess.PIPE, text=True, env=environment()
    )
    deadline = time.monotonic() + 60
    while not (store.exists() and len(store.read_text().splitlines()) >= 1) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert "run the same sweep again to go on" in output
    assert all(json.loads(line)["row"]["iters"] <= 20 for line in store.read_text().splitlines())
