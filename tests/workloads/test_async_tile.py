"""The product as Triton compiles it: exact for every edge and alignment; whole rows stored without bank conflicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads.gemm import async_tile

Checked = Callable[[Launch], Report]
SMALL: dict[str, Any] = {"tile": (64, 64, 64), "warps": 4}


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 8, 8), (64, 64, 64), (70, 136, 200), (65, 72, 328), (5, 3, 7), (70, 65, 64), (64, 64, 65)]
)
def test_every_edge_and_alignment_is_exact(checked: Checked, m: int, n: int, k: int, dtype: str) -> None:
    checked(async_tile(m, n, k, dtype=dtype, **SMALL))


@pytest.mark.parametrize("columns", [64, 128, 256])
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("k", [128, 129])
def test_every_tile_is_exact(checked: Checked, rows: int, columns: int, k: int) -> None:
    checked(async_tile(160, 264, k, tile=(rows, columns, 64), warps=rows // 16))


@pytest.mark.parametrize("stages", [2, 4, 6])
@pytest.mark.parametrize("k", [64, 512])
def test_any_number_of_stages_is_exact(checked: Checked, stages: int, k: int) -> None:
    checked(async_tile(64, 128, k, stages=stages, **SMALL))


@pytest.mark.parametrize("group", [1, 3, 8])
def test_any_order_of_tiles_is_exact(checked: Checked, group: int) -> None:
    checked(async_tile(300, 200, 64, group=group, **SMALL))


@pytest.mark.parametrize("columns", [64, 128, 256])
def test_shared_accesses_have_no_bank_conflicts_and_rows_are_stored_whole(checked: Checked, columns: int) -> None:
    report = checked(async_tile(128, columns, 128, tile=(128, columns, 64), warps=8))
    for op in ("ld", "st"):
        assert report[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"] == 0
    pieces = 128 * columns // 8
    assert report["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"] == pieces / 32
    assert report["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == pieces / 2


def test_the_librarys_tile(checked: Checked) -> None:
    """What the profiler says of Triton's kernel: shared memory, requests of copies and stores, products."""
    report = checked(async_tile(512, 512, 512))
    assert report["launch__shared_mem_per_block_static"] == 147456
    assert report["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"] == 1024
    assert report["sm__inst_executed_pipe_tensor.sum"] == 8 * 8 * 8 * 4  # tiles, warps, slices, products


def test_rows_that_are_not_aligned_cost_far_more(checked: Checked) -> None:
    aligned, misaligned = (checked(async_tile(128, n, 128)) for n in (256, 255))
    assert misaligned.cycles > 3 * aligned.cycles
    assert misaligned["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 2 * 8 * (32 + 64)  # slices, warps, numbers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tile": (96, 64, 64)}, "tile=96x64x64: rows must be 64 or 128"),
        ({"tile": (64, 64, 32)}, "the depth 64"),
        ({"tile": (64, 64, 64), "warps": 8}, "warps=8: four warps share 64 rows of the tile, so 4 are needed"),
        ({"stages": 1}, "stages=1: must be from 2 to 8"),
        ({"dtype": "tf32"}, "dtype='tf32': choose one of"),
        ({"group": 0}, "group=0: must be a positive integer"),
    ],
)
def test_what_has_no_code_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        async_tile(128, 128, 64, **arguments)


def test_a_product_of_one_size_is_square() -> None:
    params = async_tile(72, **SMALL).params
    assert (params["m"], params["n"], params["k"]) == (72, 72, 72)
