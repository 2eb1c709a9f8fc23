"""`tailwave compare`: saved reports and runs, what is shown, exit codes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.report.comparison import change_text
from workloads import memory

RUNS = ("memory.transpose n=64 method=naive", "memory.transpose n=64 method=padded")


def test_two_runs_are_compared_and_what_changed_is_shown(tailwave: Callable[..., Any]) -> None:
    result = tailwave("compare", *RUNS, "--gpu", "t4")
    assert result.exit_code == 0, result.output
    before, after = (sim.simulate(memory.transpose(64, method), gpu="t4") for method in ("naive", "padded"))
    lines = result.stdout.splitlines()
    assert lines[0].startswith("baseline  ") and before.header.title in lines[0]
    assert lines[2].startswith("current   ") and after.header.title in lines[2]
    assert lines[4].startswith(f"cycles    {before.cycles:,} -> {after.cycles:,} -")
    assert lines[5].startswith("time      ") and lines[5].endswith(" times as fast")
    assert any(line.startswith("Elapsed Cycles") for line in lines[5:])
    assert not any(line.startswith("Grid Size") for line in lines[5:])  # did not change


def test_saved_reports_are_compared_as_runs_are(tailwave: Callable[..., Any], tmp_path: Path) -> None:
    saved = []
    for k, run in enumerate(RUNS):
        saved.append(tmp_path / f"{k}.json")
        assert tailwave("run", *run.split(), "--gpu", "t4", "--json", saved[-1]).exit_code == 0
    assert tailwave("compare", *saved).stdout == tailwave("compare", *RUNS, "--gpu", "t4").stdout


def test_one_run_on_two_gpus(tailwave: Callable[..., Any]) -> None:
    both = tailwave("compare", "memory.copy n=1024 gpu=t4", "memory.copy n=1024", "--gpu", "toy").stdout
    before, after = (sim.simulate(memory.copy(1024), gpu=gpu) for gpu in ("t4", "toy"))
    assert before.header.title in both and after.header.title in both


def test_a_report_does_not_differ_from_itself(tailwave: Callable[..., Any]) -> None:
    text = tailwave("compare", RUNS[0], RUNS[0], "--gpu", "t4").stdout
    assert text.splitlines()[5].endswith(", the same") and text.splitlines()[6:] == ["", "no metric changed"]


def test_the_table_as_csv_and_json_has_every_metric(tailwave: Callable[..., Any], tmp_path: Path) -> None:
    csv = tailwave("compare", *RUNS, "--gpu", "t4", "--csv", "-", "--json", tmp_path / "table.json").stdout
    frame = pd.read_csv(io.StringIO(csv))
    after = sim.simulate(memory.transpose(64, "padded"), gpu="t4")
    assert set(frame["metric"]) == set(after.values)
    assert frame.set_index("metric")["this"]["sm__cycles_elapsed.max"] == after.cycles
    assert len(json.loads((tmp_path / "table.json").read_text())) == len(frame)


def test_a_slowdown_that_is_not_allowed_is_the_exit_code(tailwave: Callable[..., Any]) -> None:
    small, large = "memory.copy n=1024", "memory.copy n=65536"
    assert tailwave("compare", large, small, "--gpu", "toy", "--max-slowdown", "0").exit_code == 0
    slow = tailwave("compare", small, large, "--gpu", "toy", "--max-slowdown", "5")
    assert slow.exit_code == 1 and "% longer than the baseline, over 5 %" in slow.stderr


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [(100, 125, "+25.0 %"), (100, 50, "-50.0 %"), (10, 40, "x 4.0"), (0, 3, "new"), (3, 0, "-100.0 %"), (2, 2, ""),
     (float("nan"), 1, ""), (1, float("nan"), "")],
)  # fmt: skip
def test_a_change_in_words(before: float, after: float, text: str) -> None:
    assert change_text(before, after) == text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("no.json", "no.json"), "no.json: No such file"),
        (("memory.copi n=3", "memory.copy n=3"), "did you mean memory.copy"),
        (("", "memory.copy n=3"), "give a report's .json file, or a run"),
        (("memory.copy 'n=3", "memory.copy n=3"), "give a report's .json file, or a run"),
    ],
)
def test_bad_words_are_a_line(tailwave: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tailwave("compare", *words)
    assert result.exit_code == 2 and message in result.stderr
    assert len(result.stderr.splitlines()) == 1 and not result.stdout


def test_a_file_that_is_no_report_is_a_line(tailwave: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    result = tailwave("compare", path, path)
    assert result.exit_code == 2 and "no Tailwave report" in result.stderr and len(result.stderr.splitlines()) == 1
