"""`tailwave sweep`: values from words, the table in its forms, failures, bad input."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer

import sim
from sim.cli.options import parse_values
from sim.sweeps import execution
from workloads import memory

SMALL = ["sweep", "memory.copy", "--gpu", "toy", "--processes", "1"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,4", [1, 2, 4]),
        ("64:256:64", [64, 128, 192, 256]),
        ("1:3", [1, 2, 3]),
        ("64:65,1000", [64, 65, 1000]),
        ("128x64,64x64", [(128, 64), (64, 64)]),
        ("naive,padded", ["naive", "padded"]),
        ("0.5,true", [0.5, True]),
    ],
)
def test_values_are_read_as_meant(text: str, values: list[Any]) -> None:
    read = parse_values(text)
    assert read == values and list(map(type, read)) == list(map(type, values))


@pytest.mark.parametrize("text", ["4:1", "1:4:0"])
def test_a_range_that_has_no_values_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="write first:last:step"):
        parse_values(text)


def test_the_table_is_the_sweeps_frame_in_every_form(tailwave: Callable[..., Any], tmp_path: Path) -> None:
    csv, saved = tmp_path / "points.csv", tmp_path / "points.json"
    words = (
        "n=32:96:32",
        "width=1,4",
        "--gpu",
        "h200",
        "--metric",
        "smsp__inst_executed.sum",
        "--store",
        tmp_path / "s",
    )
    result = tailwave(*SMALL, *words, "--csv", csv, "--json", saved)
    assert result.exit_code == 0, result.output
    wanted = sim.sweep(
        memory.copy, {"n": [32, 64, 96], "width": [1, 4]}, ["toy", "h200"], "smsp__inst_executed.sum",
        processes=1, progress=False, store=None,
    )  # fmt: skip
    pd.testing.assert_frame_equal(pd.read_csv(csv, keep_default_na=False), wanted)
    pd.testing.assert_frame_equal(pd.DataFrame(json.loads(saved.read_text())), wanted, rtol=1e-9)
    assert len(result.stdout.splitlines()) == 1 + len(wanted)
    assert result.stdout.split()[: len(wanted.columns) - 1] == list(wanted.columns[:-1])


def test_a_dash_prints_nothing_but_the_data(tailwave: Callable[..., Any]) -> None:
    result = tailwave(*SMALL, "n=32,64", "--csv", "-", "--no-store")
    assert pd.read_csv(io.StringIO(result.stdout))["n"].tolist() == [32, 64]


def test_a_failed_point_is_a_line_and_the_exit_code(tailwave: Callable[..., Any]) -> None:
    result = tailwave(*SMALL, "n=32,-1", "--csv", "-", "--no-store")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 3
    assert "tailwave: n=-1 gpu=toy failed: ValueError: n=-1: must be a positive integer" in result.stderr


def test_finished_points_are_kept_unless_not_wanted(
    tailwave: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "points.jsonl"
    first = tailwave(*SMALL, "n=40", "--csv", "-", "--store", store)
    kept = tailwave(*SMALL, "n=40", "--csv", "-")

    def never(point: Any) -> None:
        raise AssertionError("simulated again")

    monkeypatch.setattr(execution, "simulate_point", never)
    for words in (("--store", store), ()):
        assert tailwave(*SMALL, "n=40", "--csv", "-", *words).stdout == first.stdout == kept.stdout
    assert tailwave(*SMALL, "n=40", "--csv", "-", "--no-store").exit_code == 1


def test_a_cluster_is_told_by_its_address(tailwave: Callable[..., Any]) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        there = tailwave(*SMALL[:-2], "n=32,64", "--csv", "-", "--no-store", "--dask", cluster.scheduler_address)
    assert there.exit_code == 0
    assert there.stdout == tailwave(*SMALL, "n=32,64", "--csv", "-", "--no-store").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sweep", "memory.copi", "n=3"), "no workload 'memory.copi': did you mean memory.copy"),
        (("sweep", "memory.copy", "300"), "write parameters as key=value"),
        (("sweep", "memory.copy", "width=1"), "missing a required argument: 'n'"),
        (("sweep", "memory.copy", "n=1", "--metric", "sm__cycles"), "no metric 'sm__cycles'"),
        (("sweep", "memory.copy", "n=1", "--gpu", "h2000"), "did you mean 'h200'"),
        (("sweep", "memory.copy", "n=1", "--store", "a", "--no-store"), "not both"),
        (("sweep", "memory.copy", "n=1", "--csv", "-", "--json", "-"), "only one of the outputs"),
        (("sweep", "memory.copy", "n=1", "--csv", "no/such.csv"), "there is no folder 'no'"),
        (("sweep", "memory.copy", "n=1", "--detail", "most"), "'most': use auto, full, sampled"),
        (("sweep", "memory.copy"), "Missing argument"),
    ],
)
def test_bad_words_are_a_line(tailwave: Callable[..., Any], words: tuple[str, ...], message: str) -> None:
    result = tailwave(*words)
    assert result.exit_code == 2 and message in result.stderr
    assert len(result.stderr.splitlines()) == 1 and not result.stdout
