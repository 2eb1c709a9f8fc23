"""`tailwave sawtooth`: its sizes and tiles, what it prints and writes, and how it takes bad input."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sim.cli import app
from sim.cli.sawtooth import CLIFF, DEFAULT_SIZES, choose_sizes, parse_tile

SMALL = ["sawtooth", "--gpu", "toy", "--tile", "64x64x16", "--processes", "1"]


def invoke(*words: str) -> tuple[int, str]:
    """Exit status, and everything printed."""
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


def test_default_sizes_are_about_forty_with_the_cliff_and_some_misaligned() -> None:
    assert 36 <= len(DEFAULT_SIZES) <= 44
    assert set(CLIFF) <= set(DEFAULT_SIZES)
    assert (DEFAULT_SIZES[0], DEFAULT_SIZES[-1]) == (256, 2304)
    assert {math.gcd(n, 8) for n in DEFAULT_SIZES} == {8, 4, 2, 1}


def test_sizes_are_a_list_or_a_range() -> None:
    assert choose_sizes("1793, 1792", None, None, None) == [1792, 1793]
    assert choose_sizes(None, 512, 640, 64) == [512, 576, 640]
    assert choose_sizes(None, 2200, None, None) == [2200, 2264]


@pytest.mark.parametrize("sizes", [("1792", 256, None, None), ("many", None, None, None), (None, 512, 256, None)])
def test_sizes_that_make_no_sense_are_refused(sizes: tuple[str | None, int | None, int | None, int | None]) -> None:
    with pytest.raises(typer.BadParameter):
        choose_sizes(*sizes)


def test_a_tile_is_rows_by_columns_and_perhaps_depth() -> None:
    assert parse_tile("256x128") == (256, 128)
    assert parse_tile("64x64x16") == (64, 64, 16)
    with pytest.raises(typer.BadParameter, match="write rows x columns"):
        parse_tile("256*128")


def test_the_command_ends_with_the_pictures_path(tmp_path: Path) -> None:
    picture = tmp_path / "saw.png"
    status, output = invoke(*SMALL, "--sizes", "64,128", "--output", str(picture), "--csv")
    assert status == 0
    assert output.rstrip().splitlines()[-1] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "saw.csv").read_text().startswith("n,")


def test_the_step_to_another_wave_is_told_in_words(tmp_path: Path) -> None:
    # The toy GPU has 2 SMs; many blocks fit on each, so a wave is found by its own figures.
    _, output = invoke(*SMALL, "--sizes", "64,512", "--output", str(tmp_path / "saw.png"))
    assert "N=512: 64 tiles" in output and "TFLOP/s" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gpu", "a100"), "a100"),
        (("--tile", "100x100"), "64, 128 or 256"),
        (("--sizes", "0"), "sizes must be positive"),
        (("--from", "0"), "sizes must be positive"),
        (("--step", "0"), "--step 0: must be at least 1"),
    ],
)
def test_bad_input_is_told_and_writes_nothing(tmp_path: Path, words: tuple[str, str], message: str) -> None:
    status, output = invoke("sawtooth", *words, "--output", str(tmp_path / "saw.png"))
    assert status != 0
    assert message in " ".join(output.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "message"), [("saw.gif", ".png, .svg, .pdf"), (".", ".png"), ("taken.png", "folder")])
def test_a_picture_that_cannot_be_written_is_refused_before_the_sweep(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "taken.png").mkdir()
    status, output = invoke(*SMALL, "--sizes", "64", "--output", str(tmp_path / name))
    assert status == 2
    assert message in " ".join(output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["taken.png"]
