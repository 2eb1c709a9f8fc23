"""FlashAttention forward: right for every block size, length and head dimension; the library's blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads.attention import flash

Checked = Callable[[Launch], Report]
SMALL = {"block_m": 32, "block_n": 32, "warps": 2}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [32, 64, 96, 1, 33, 70])
def test_every_length_is_right(checked: Checked, n: int, causal: bool) -> None:
    checked(flash(1, 2, n, causal=causal, **SMALL))


@pytest.mark.parametrize("d", [32, 128])
def test_other_head_dimensions_are_right(checked: Checked, d: int) -> None:
    checked(flash(2, 1, 64, d=d, block_m=64, block_n=64, warps=4))


@pytest.mark.parametrize(("block_m", "block_n"), [(64, 32), (32, 64)])
@pytest.mark.parametrize("n", [128, 100])
def test_other_blocks_are_right(checked: Checked, block_m: int, block_n: int, n: int) -> None:
    checked(flash(1, 1, n, causal=True, block_m=block_m, block_n=block_n, warps=2))


def test_the_librarys_blocks(checked: Checked) -> None:
    """128 x 128 with four warps: what the library's kernel for d=64 has, by the profiler."""
    launch = flash(1, 1, 256, causal=True)
    report = checked(launch)
    assert launch.shared_bytes == 49152
    assert report["launch__occupancy_limit_registers"] == 2
    assert report["sm__inst_executed_pipe_tensor.sum"] == 4 * 256 * 3  # a warp's tile takes 256, and three are seen
    assert report["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 0
    assert "LDL" not in launch.program.listing()


@pytest.mark.parametrize("spilled", [(26, 6), (0, 1), (32, 72), (3, 0)])
@pytest.mark.parametrize("causal", [False, True])
def test_spilled_registers_go_through_local_memory(checked: Checked, spilled: tuple[int, int], causal: bool) -> None:
    """Stored once, and again after each tile of keys; loaded as often. A warp's register is four sectors."""
    once, each = spilled
    launch = flash(1, 2, 384, causal=causal, spilled=spilled)
    report = checked(launch)
    tiles = 1 + 2 + 3 if causal else 3 * 3  # of the three blocks of a head
    sectors = 2 * 4 * (3 * once + tiles * each) * 4
    assert launch.program.local_bytes == 4 * (once + each)
    assert report["l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"] == sectors
    assert report["l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"] == sectors


@pytest.mark.parametrize("d", [32, 128])
def test_spilled_registers_with_edges_and_other_blocks_are_right(checked: Checked, d: int) -> None:
    checked(flash(1, 1, 100, d=d, block_m=64, block_n=32, causal=True, spilled=(5, 9)))


def test_fast_exponentials_are_right_and_spare_instructions(checked: Checked) -> None:
    """Three a weight: a comparison, and a multiplication before and after. And scaling and subtracting are one."""
    plain, fast = (checked(flash(1, 1, 128, fast_math=fast)) for fast in (False, True))
    spared = plain["smsp__inst_executed.sum"] - fast["smsp__inst_executed.sum"]
    assert spared == pytest.approx((3 + 1) * 128 * 128 / 32, rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d": 48}, "d=48: choose one of"),
        ({"block_m": 96}, "block_m=96: choose one of"),
        ({"block_m": 32}, "block_m=32: each of 4 warps takes a multiple of 16"),
        ({"block_m": 256}, "take 384 registers"),
        ({"d": 128, "warps": 2, "block_m": 32}, "copies take eight rows of d=128"),
        ({"spilled": (33, 0)}, "with these blocks 0 to 32 registers can be stored once"),
        ({"spilled": (0, 73)}, "and 0 to 72 with each tile of keys"),
        ({"spilled": (-1, 6)}, r"spilled=\(-1, 6\): with these blocks"),
        ({"spilled": (22,)}, "must be 2 integers"),
        ({"spilled": (22.0, 6)}, "must be 2 integers"),
    ],
)
def test_blocks_without_code_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flash(1, 1, 128, **arguments)
