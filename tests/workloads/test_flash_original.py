"""FlashAttention in its first paper's order: right for any length; outputs pass through memory once a tile of keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads.attention import flash_original

Checked = Callable[[Launch], Report]
SMALL = {"block_m": 32, "block_n": 64, "warps": 2}


@pytest.mark.parametrize("n", [1, 64, 100, 192])
def test_every_length_is_right(checked: Checked, n: int) -> None:
    checked(flash_original(1, 2, n, **SMALL))


@pytest.mark.parametrize(("d", "block_m", "warps"), [(32, 64, 4), (64, 64, 4), (64, 128, 8)])
@pytest.mark.parametrize("fast_math", [False, True])
def test_other_blocks_are_right(checked: Checked, d: int, block_m: int, warps: int, fast_math: bool) -> None:
    checked(flash_original(1, 1, 512, d=d, block_m=block_m, warps=warps, fast_math=fast_math))


def test_outputs_go_to_memory_for_each_tile_of_keys_and_come_back(checked: Checked) -> None:
    """In float32, as rows of 8 sectors, with a maximum and a total; in the end in bfloat16, with a logarithm."""
    launch, tiles = flash_original(1, 1, 512), 512 // 256
    report = checked(launch)
    between, end = 512 * 8 + 2 * 512 * 4 // 32, 512 * 8 + 512 * 4 // 32  # of bfloat16, half a sector at a time
    assert report["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == (tiles - 1) * between + end
    assert report["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == (tiles - 1) * between
    assert "LDL" not in launch.program.listing()


def test_blocks_without_code_are_refused() -> None:
    with pytest.raises(ValueError, match="block_m=256: choose|take 640 registers"):
        flash_original(1, 1, 256, block_m=256)
