"""`tailwave validate`: which launches it takes, what it writes, how it goes on, how it takes bad input."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from sim.cli import app
from sim.sweeps import execution
from sim.sweeps.point import Point
from validation.suite import COUNTERS, LISTING, SUITE

here = pytest.mark.skipif(not (SUITE / LISTING).exists(), reason="the card's kernels are not here")
SMALL = ["--kernel", "copy4", "--limit", "1e4", "--processes", "1"]


def invoke(*words: str) -> tuple[int, str]:
    """Exit status, and everything printed."""
    result = CliRunner().invoke(app, ["validate", *words])
    return result.exit_code, result.output


@here
def test_it_writes_a_table_and_a_picture_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "v.csv"
    status, printed = invoke(*SMALL, "--output", str(output))
    assert status == 0
    assert printed.rstrip().splitlines()[-2:] == [str(output), str(output.with_suffix(".png"))]
    assert "streaming" in printed and "copy4(n=65536,block=256)" in "".join(printed.split())
    table = pd.read_csv(output)
    assert list(table["launch"]) == ["copy4(n=65536,block=256)"]
    assert table["verdict smsp__inst_executed.sum"][0] == "equal"
    assert table["ratio"][0] == table["cycles"][0] / table["card_cycles"][0]
    assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")

    def never(point: Point) -> None:
        raise AssertionError("simulated again")

    monkeypatch.setattr(execution, "simulate_point", never)
    assert invoke(*SMALL, "--output", str(output))[0] == 0


@here
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--class", "texture"), "--class texture: there are streaming, coalescing"),
        (("--kernel", "copy"), "--kernel copy: there are copy1, copy4"),
        (("--limit", "1"), "no such launch has at most 1 warp instructions"),
        (("--output", "table.png"), "ends in .csv"),
        (("--gpu", "h300"), "h300"),
        (("--detail", "some"), "'some': use auto, full, sampled"),
    ],
)
def test_bad_input_is_told(words: tuple[str, str], message: str) -> None:
    status, printed = invoke(*words)
    assert status == 2
    assert message in " ".join(printed.replace("│", " ").split())


@here
def test_what_was_sampled_is_simulated_again_in_full(tmp_path: Path) -> None:
    """`copy4` of 2**22 elements: 4,096 blocks, of which a sample runs a part."""
    words = ["--kernel", "copy4", "--limit", "1e6", "--processes", "1", "--output", str(tmp_path / "v.csv")]
    cycles = []
    for detail in ("sampled", "full"):
        assert invoke(*words, "--detail", detail)[0] == 0
        table = pd.read_csv(tmp_path / "v.csv").set_index("launch")
        cycles.append(int(table["cycles"]["copy4(n=4194304,block=256)"]))
    assert cycles[0] != cycles[1]


def test_a_folder_without_the_suite_is_told(tmp_path: Path) -> None:
    status, printed = invoke("--suite", str(tmp_path))
    assert status == 2
    assert f"there is no {LISTING}" in " ".join(printed.replace("│", " ").split())
    (tmp_path / LISTING).touch()
    assert f"there is no {COUNTERS}" in " ".join(invoke("--suite", str(tmp_path))[1].replace("│", " ").split())
