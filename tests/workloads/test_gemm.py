"""Hopper's matrix products: exact for every type, edge, tile and number of stages; what each schedule does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads import gemm
from workloads.gemm import DTYPES

Checked = Callable[[Launch], Report]
SCHEDULES = [gemm.basic, gemm.cooperative, gemm.pingpong]
TILES = {gemm.basic: (64, 64), gemm.cooperative: (128, 64), gemm.pingpong: (64, 64)}


def small(schedule: Any, m: int, n: int, k: int, **more: Any) -> Launch:
    """A product of small tiles; blocks that stay are two, so that each has several tiles."""
    if schedule is not gemm.basic:
        more.setdefault("blocks", 2)
    return schedule(m, n, k, **{"tile": TILES[schedule], "stages": 3, **more})


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_is_exact(checked: Checked, schedule: Any, dtype: str) -> None:
    checked(small(schedule, 256, 128, 320, dtype=dtype))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 8), (65, 66, 64), (200, 67, 136), (129, 256, 24), (320, 8, 512)])
def test_every_edge_is_exact(checked: Checked, schedule: Any, m: int, n: int, k: int) -> None:
    checked(small(schedule, m, n, k))


@pytest.mark.parametrize("dtype", ["tf32", "s8"])
@pytest.mark.parametrize("n", [66, 67])
def test_edges_of_wide_results_are_exact(checked: Checked, n: int, dtype: str) -> None:
    checked(small(gemm.basic, 70, n, 64, dtype=dtype))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_tile_of_the_card(checked: Checked, schedule: Any) -> None:
    launch = schedule(256, 512, 192)
    checked(launch)
    assert "LDL" not in launch.program.listing()


@pytest.mark.parametrize(
    ("schedule", "tile"),
    [
        (gemm.basic, (128, 24)),
        (gemm.basic, (256, 128)),
        (gemm.cooperative, (256, 64)),
        (gemm.pingpong, (128, 128)),
        (gemm.pingpong, (64, 200)),
    ],
)
def test_other_tiles_are_exact(checked: Checked, schedule: Any, tile: tuple[int, int]) -> None:
    checked(small(schedule, 300, 300, 128, tile=tile))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stages", [2, 5, 8])
def test_any_number_of_stages_is_exact(checked: Checked, schedule: Any, stages: int) -> None:
    checked(small(schedule, 128, 64, 640, stages=stages))


def test_many_rows_of_tiles_are_walked_in_bands(checked: Checked) -> None:
    checked(gemm.cooperative(18 * 128, 16, 64, tile=(128, 8), stages=2, blocks=4))


@pytest.mark.parametrize(("m", "n", "tiles"), [(256, 256, 2), (257, 256, 3), (256, 257, 4)])
def test_tiles_cover_the_matrix(m: int, n: int, tiles: int) -> None:
    launch = gemm.basic(m, n, 64)
    assert launch.facts["tiles"] == launch.blocks == tiles


def test_persistent_blocks_are_at_most_as_many_as_tiles() -> None:
    assert [gemm.pingpong(128, 512, 64, blocks=blocks).blocks for blocks in (3, 4, 5)] == [3, 4, 4]


@pytest.mark.parametrize("schedule", [gemm.cooperative, gemm.pingpong])
def test_registers_move_from_the_loading_warpgroup(schedule: Any) -> None:
    program = schedule(256, 256, 64).program
    assert program.registers_per_thread == 168
    moves = [line.split(" ;")[0] for line in program.listing().splitlines() if "USETMAXREG" in line]
    assert [int(move.split()[-1], 16) for move in moves] == [40, 232]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_products_are_those_of_the_tiles(checked: Checked, schedule: Any) -> None:
    """A product takes 64 rows and 32 bytes of k; each warp of its warpgroup counts one instruction."""
    report = checked(small(schedule, 256, 128, 256))
    assert report["sm__inst_executed_pipe_tensor.sum"] == 4 * (256 // 64) * (128 // 64) * (256 // 16)


def test_blocks_that_take_turns_are_faster_when_storing_counts(checked: Checked) -> None:
    """Shallow products: the tensor cores of `basic` idle while it stores, of `pingpong` less."""
    cycles = {s: checked(s(512, 1024, 128)).cycles for s in (gemm.basic,)}
    cycles |= {s: checked(s(512, 1024, 128, blocks=2)).cycles for s in (gemm.pingpong,)}
    assert cycles[gemm.pingpong] < cycles[gemm.basic]


@pytest.mark.parametrize(
    ("schedule", "arguments", "message"),
    [
        (gemm.basic, {"k": 100}, r"k=100: rows of 200 bytes; TMA .* use gemm.async_tile"),
        (gemm.pingpong, {"k": 8, "dtype": "e4m3"}, "k=8: rows of 8 bytes"),
        (gemm.basic, {"dtype": "f64"}, "dtype='f64': choose one of"),
        (gemm.basic, {"tile": (96, 64)}, "rows must be 64 or 128 or 256"),
        (gemm.cooperative, {"tile": (64, 64)}, "rows must be 128 or 256"),
        (gemm.pingpong, {"tile": (256, 64)}, "rows must be 64 or 128"),
        (gemm.basic, {"tile": (128, 100)}, "columns must be a multiple of 8 up to 256"),
        (gemm.basic, {"tile": (256, 256)}, "256 sums are more than 128"),
        (gemm.basic, {"stages": 1}, "stages=1: must be from 2 to 8"),
        (gemm.cooperative, {"blocks": 0}, "blocks=0: must be a positive integer"),
        (gemm.basic, {"m": 0}, "m=0: must be a positive integer"),
    ],
)
def test_what_has_no_code_is_refused(schedule: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedule(**{"m": 128, "n": 128, "k": 64, **arguments})
