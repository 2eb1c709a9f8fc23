"""The tensor-core product: exact results for every type, alignment and edge; tiles; no bank conflicts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads.tensor import Plan, gemm

Checked = Callable[[Launch], Report]
SMALL = (64, 64, 16)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "tf32"])
@pytest.mark.parametrize("n", [64, 72, 68, 66, 65])
def test_every_alignment_and_edge_is_exact(checked: Checked, n: int, dtype: str) -> None:
    checked(gemm(n, tile=SMALL, dtype=dtype, stages=2))


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (70, 130, 20), (128, 8, 100), (33, 65, 7)])
def test_any_shape_is_exact(checked: Checked, m: int, n: int, k: int) -> None:
    checked(gemm(n, m=m, k=k, tile=SMALL, stages=2))


@pytest.mark.parametrize("tile", [(64, 128, 32), (128, 64, 32), (64, 64, 64)])
def test_other_tiles_are_exact(checked: Checked, tile: tuple[int, int, int]) -> None:
    checked(gemm(130, tile=tile, stages=2))


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_any_number_of_stages_is_exact(checked: Checked, stages: int) -> None:
    checked(gemm(96, tile=SMALL, stages=stages))


@pytest.mark.parametrize(("n", "tiles"), [(1792, 98), (1793, 120), (256, 2), (257, 6)])
def test_tiles_cover_the_matrix(n: int, tiles: int) -> None:
    launch = gemm(n)
    assert launch.facts["tiles"] == launch.blocks == tiles


@pytest.mark.parametrize("dtype", ["bf16", "tf32"])
@pytest.mark.parametrize("depth", [16, 32, 64])
def test_aligned_shared_accesses_have_no_bank_conflicts(checked: Checked, depth: int, dtype: str) -> None:
    report = checked(gemm(128, tile=(64, 64, depth), stages=2, dtype=dtype))
    for op in ("ld", "st"):
        assert report[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"] == 0


def test_narrower_copies_take_more_instructions(checked: Checked) -> None:
    executed = [checked(gemm(n, tile=SMALL, stages=2))["smsp__inst_executed.sum"] for n in (64, 60, 62, 63)]
    assert executed == sorted(executed)


@pytest.mark.parametrize(
    ("bm", "bn", "warps", "warp_tile"), [(256, 128, 8, (64, 64)), (128, 256, 8, (64, 64)), (64, 64, 4, (32, 32))]
)
def test_warps_share_a_tile_in_squares(bm: int, bn: int, warps: int, warp_tile: tuple[int, int]) -> None:
    plan = Plan(bm, bn, 32, "bf16", 3, 16, 16, True)
    assert (plan.warps, plan.wm, plan.wn) == (warps, *warp_tile)


@pytest.mark.parametrize(
    ("tile", "message"),
    [
        ((100, 128, 32), "rows and columns must be 64, 128 or 256"),
        ((256, 256, 32), "more than 128 registers"),
        ((256, 64, 16), "less than a piece a thread"),
    ],
)
def test_a_tile_without_code_is_refused(tile: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gemm(64, tile=tile)
