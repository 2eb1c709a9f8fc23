"""The sawtooth's picture: where waves begin, which band a size belongs to, and that it is written whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sim.plot.figure import save_figure
from sim.plot.sawtooth import BANDS, cliff_text, draw_sawtooth, wave_boundaries

TILE = (256, 128)
BLOCKS_A_WAVE = 108


def frame_of(sizes: list[int]) -> pd.DataFrame:
    """Rows as a sweep gives them, for 108 blocks a wave."""
    rows: list[dict[str, Any]] = []
    for n in sizes:
        tiles = -(-n // TILE[0]) * -(-n // TILE[1])
        waves = -(-tiles // BLOCKS_A_WAVE)
        last = tiles - (waves - 1) * BLOCKS_A_WAVE
        rows.append(
            {
                "n": n,
                "tflops": 100.0 / waves,
                "tiles": tiles,
                "waves": waves,
                "tail_blocks": last,
                "tail_utilization": last / BLOCKS_A_WAVE,
            }
        )
    return pd.DataFrame(rows)


def test_the_second_wave_begins_at_1793_on_108_sms() -> None:
    assert wave_boundaries(frame_of([256, 1792, 2304]), TILE) == {1793: 2}


def test_boundaries_outside_the_sizes_are_not_drawn() -> None:
    assert wave_boundaries(frame_of([256, 1024]), TILE) == {}


def test_the_nearest_sizes_on_both_sides_of_a_step_are_told() -> None:
    assert cliff_text(frame_of([256, 1792, 1793, 1856, 2944])) == (
        "N=1792: 98 tiles, 1 wave.  N=1793: 120 tiles, 2 waves, 12 of 108 places of the last one filled."
    )


def test_without_a_step_nothing_is_told() -> None:
    assert cliff_text(frame_of([256, 1792])) == ""


def test_every_region_between_boundaries_is_named() -> None:
    speed = draw_sawtooth(frame_of([256, 1792, 1856, 4096]), TILE, "title").axes[0]
    named = [text.get_text() for text in speed.texts if "wave" in text.get_text() and "N=" not in text.get_text()]
    assert named == ["1 wave", "2 waves", "3 waves", "4 waves", "5 waves"]


@pytest.mark.parametrize(("n", "elements"), [(1792, 8), (1796, 4), (1794, 2), (1793, 1)])
def test_a_size_is_in_the_band_of_its_rows_alignment(n: int, elements: int) -> None:
    assert [band.elements for band in BANDS if band.holds(n)] == [elements]


def test_the_figure_shows_every_size_once() -> None:
    sizes = [256, 1030, 1792, 1793, 1796]
    speed = draw_sawtooth(frame_of(sizes), TILE, "title").axes[0]
    drawn = [int(x) for line in speed.lines if line.get_linestyle() != "--" for x in line.get_xdata()]
    assert sorted(drawn) == sizes


def test_a_picture_is_written_whole_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = save_figure(draw_sawtooth(frame_of([256, 512]), TILE, "title"), tmp_path / "new" / "saw.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in path.parent.iterdir()] == ["saw.png"]


def test_an_unknown_picture_format_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="xyz"):
        save_figure(draw_sawtooth(frame_of([256]), TILE, "title"), tmp_path / "saw.xyz")
    assert not list(tmp_path.iterdir())
