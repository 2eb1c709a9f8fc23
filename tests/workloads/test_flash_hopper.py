"""FlashAttention on Hopper: right for every length, block and head dimension; what the card counts, and who waits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from sim.device import simulate
from sim.launch import Launch
from sim.profile import Profile, load_profile
from sim.report import Report
from workloads.attention import flash_hopper

Checked = Callable[[Launch], Report]
PRODUCTS_OF_TILE = 4 + 8  #: of 64 queries and 128 keys of 64: scores 64x128x16, output 64x64x16
TENSOR = "sm__inst_executed_pipe_tensor.sum"


@pytest.fixture(scope="module")
def gpu() -> Profile:
    """Two SMs of which nothing joins or adds reads."""
    return load_profile("h200").override(
        {"gpu.sm_count": 2, "gpu.gpc_count": 1, "l2.coalesce_cycles": 0, "l2.partitions": 1}
    )


def small(b: int, h: int, n: int, **more: Any) -> Launch:
    """Two blocks, so that each has several tiles of queries."""
    return flash_hopper(b, h, n, **{"blocks": 2, **more})


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 128, 130, 384])
def test_every_length_is_right(checked: Checked, n: int, causal: bool, overlap: bool) -> None:
    checked(small(1, 3, n, causal=causal, overlap=overlap))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "blocks",
    [
        {"block_n": 64},
        {"block_m": 256, "block_n": 64},
        {"block_m": 256, "block_n": 64, "overlap": True},
        {"d": 128, "stages": 2},
        {"d": 128, "block_n": 64, "overlap": True, "fast_math": True},
    ],
)
@pytest.mark.parametrize("n", [256, 200])
def test_other_blocks_are_right(checked: Checked, blocks: dict[str, Any], causal: bool, n: int) -> None:
    launch = small(2, 1, n, causal=causal, **blocks)
    checked(launch)
    assert "LDL" not in launch.program.listing()


@pytest.mark.parametrize("stages", [2, 5])
def test_any_number_of_stages_is_right(checked: Checked, stages: int) -> None:
    checked(small(1, 2, 320, block_n=64, stages=stages))


@pytest.mark.parametrize(("causal", "tiles"), [(False, 4 * 4), (True, 1 + 2 + 3 + 4)])
def test_counts_of_the_librarys_blocks(checked: Checked, causal: bool, tiles: int) -> None:
    """128 x 128 with three warpgroups: what the library's kernel for d=64 has, by the profiler's counts."""
    launch = small(1, 1, 512, causal=causal)
    report = checked(launch)
    assert report["launch__block_size"] == 384
    assert report["launch__registers_per_thread"] == 168
    assert report["launch__occupancy_limit_shared_mem"] == report["launch__occupancy_limit_registers"] == 1
    assert report[TENSOR] == 2 * 4 * PRODUCTS_OF_TILE * tiles  # warpgroups, warps
    assert report["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"] == 0
    assert "LDL" not in launch.program.listing()


def test_queries_keys_and_values_are_read_once_a_tile(gpu: Profile) -> None:
    loads_only = gpu.override({"launch_traffic.code_reads": 0, "launch_traffic.l2_read_sectors": 0})
    report = simulate(small(1, 2, 384, causal=True), gpu=loads_only)
    tiles, sectors_of_tile = 2 * (1 + 2 + 3), 128 * 64 * 2 // 32
    assert report["lts__t_sectors_op_read.sum"] == pytest.approx((2 * 3 + 2 * tiles) * sectors_of_tile, rel=0.01)


def test_turns_in_opposite_order_even_out_what_causal_tiles_cost(checked: Checked) -> None:
    """Of each head's tiles of queries, with 4, 3, 2 and 1 tiles of keys, two blocks get five each, not six and four."""
    report = checked(small(1, 4, 512, causal=True))
    assert report["sm__cycles_active.max"] < 1.05 * report["sm__cycles_active.min"]


def test_warpgroups_pass_the_tensor_cores_back_and_forth(gpu: Profile) -> None:
    """On one sub-core: products of a turn, warp 4's and then warp 8's; the first has no output, the last no scores."""
    rows = simulate(small(1, 1, 384, blocks=1), gpu=gpu, timeline=0).timeline
    products = rows[(rows["track"] == "tensor") & (rows["warp"] % 4 == 0)].sort_values("start")
    assert (products["start"].to_numpy()[1:] >= products["end"].to_numpy()[:-1]).all()
    turns = [(warp, len(list(some))) for warp, some in itertools.groupby(products["warp"])]
    assert turns == [(warp, count) for count in (4, 12, 12, 8) for warp in (4, 8)] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d": 32}, "d=32: choose one of 64, 128"),
        ({"block_m": 64}, "block_m=64: choose one of 128, 256"),
        ({"block_n": 32}, "block_n=32: choose one of 64, 128"),
        ({"stages": 1}, "stages=1: must be from 2 to 8"),
        ({"d": 128}, "stages=3: tiles of 262144 bytes; shared memory has 231424"),
        ({"block_m": 256, "stages": 2, "block_n": 128}, "take 256 registers a thread"),
        ({"blocks": 0}, "blocks=0: must be a positive integer"),
    ],
)
def test_what_has_no_code_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flash_hopper(1, 1, 128, **arguments)
