"""`tailwave run`: finding a workload, its parameters from words, the report as text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sim.cli import app
from sim.cli.options import parse_value
from sim.cli.workloads import find_workloads


def invoke(*words: str) -> tuple[int, str]:
    """Exit status, and everything printed, with its lines joined."""
    result = CliRunner().invoke(app, ["run", *words])
    return result.exit_code, " ".join(result.output.split())


def test_the_workloads_of_every_file_are_found() -> None:
    found = find_workloads()
    assert {"memory.copy", "matmul.gemm", "divergence.lecture", "rows.softmax", "pointwise.chain"} <= found.keys()
    assert "memory.blocks_for" not in found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1024", 1024),
        ("0.5", 0.5),
        ("naive", "naive"),
        ("true", True),
        ("False", False),
        ("256x128x32", (256, 128, 32)),
    ],
)
def test_values_are_read_as_meant(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_a_report_is_printed_and_saved(tmp_path: Path) -> None:
    saved = tmp_path / "copy.json"
    status, output = invoke("memory.copy", "n=300", "--gpu", "toy", "--json", str(saved), "--check")
    assert status == 0
    assert "equal to NumPy's" in output
    assert json.loads(saved.read_text())


def test_without_a_workload_they_are_listed_with_their_parameters() -> None:
    _, output = invoke()
    assert "memory.copy(n, width=1, block=256)" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("memory.copi", "n=3"), "did you mean memory.copy"),
        (("memory.copy", "n=3", "size=4"), "size"),
        (("memory.copy",), "missing a required argument: 'n'"),
        (("memory.copy", "300"), "write parameters as key=value"),
        (("memory.copy", "n=0"), "n=0: must be a positive integer"),
        (("memory.copy", "n=1", "n=2"), "n is given twice"),
        (("memory.copy", f"n={10**15}"), "Unable to allocate"),
        (("memory.copy", "n=32", "--json", "no/such/report.json"), "there is no folder 'no/such'"),
    ],
)
def test_bad_words_are_told(words: tuple[str, ...], message: str) -> None:
    status, output = invoke(*words)
    assert status == 2
    assert message in output
    assert "Verdict" not in output
