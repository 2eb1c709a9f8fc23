"""Hopper's matrix products: exact for every type, edge, tile and number of stages; what each schedule does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sim.device import simulate
from sim.launch import Launch
from sim.profile import load_profile
from sim.report import Report
from workloads import gemm
from workloads.epilogues import separate
from workloads.fusions import NAMES
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


@pytest.mark.parametrize("schedule", [gemm.cooperative, gemm.pingpong])
@pytest.mark.parametrize("cluster", [(2, 1), (1, 2), (2, 2), (4, 1), (1, 8)])
@pytest.mark.parametrize(("m", "n", "k"), [(512, 512, 640), (200, 340, 136)])
def test_clusters_are_exact(schedule: Any, cluster: tuple[int, int], m: int, n: int, k: int) -> None:
    launch = small(schedule, m, n, k, cluster=cluster, blocks=16)
    assert launch.cluster == (cluster[0] * cluster[1], 1, 1)
    launch.check(simulate(launch))


@pytest.mark.parametrize("schedule", [gemm.cooperative, gemm.pingpong])
def test_what_a_cluster_shares_is_read_once(schedule: Any) -> None:
    gpu = load_profile("h200").override(
        {"l2.coalesce_cycles": 0, "l2.partitions": 1, "launch_traffic.code_reads": 0}
    )  # nothing else joins or adds reads
    read = {}
    for cluster in ((1, 1), (2, 1), (1, 2)):
        launch = small(schedule, 512, 512, 512, cluster=cluster, blocks=16)
        read[cluster] = simulate(launch, gpu=gpu)["lts__t_sectors_op_read.sum"]
    rows, columns = TILES[schedule]
    tiles, slices, sector_rows = 512 // rows * (512 // columns), 8, 4  # sectors of a row of 128 bytes
    halves = {(2, 1): columns, (1, 2): rows}  # of B's rows, of A's
    for cluster, shared in halves.items():
        assert read[(1, 1)] - read[cluster] == tiles * slices * shared * sector_rows // 2


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
        (gemm.cooperative, {"cluster": (4, 4)}, "cluster=4x4: 1, 2, 4 or 8 tiles each way, 8 together at most"),
        (gemm.pingpong, {"cluster": (8, 1), "tile": (64, 24)}, "shares of a tile 64x24 have multiples of 8 rows"),
        (gemm.cooperative, {"blocks": 0}, "blocks=0: must be a positive integer"),
        (gemm.basic, {"m": 0}, "m=0: must be a positive integer"),
    ],
)
def test_what_has_no_code_is_refused(schedule: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedule(**{"m": 128, "n": 128, "k": 64, **arguments})


@pytest.mark.parametrize("dtype", ["bf16", "f16", "tf32", "e4m3"])
@pytest.mark.parametrize("epilogue", NAMES)
def test_every_epilogue_is_right(checked: Checked, epilogue: str, dtype: str) -> None:
    checked(small(gemm.pingpong, 128, 128, 192, dtype=dtype, epilogue=epilogue))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("epilogue", NAMES)
def test_every_epilogue_is_right_at_edges(checked: Checked, schedule: Any, epilogue: str) -> None:
    n = 192 if epilogue == "rotary" else 134
    checked(small(schedule, 130, n, 72, epilogue=epilogue, tile=(128, 128)))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("epilogue", NAMES)
def test_epilogues_of_the_cards_tile_fit_the_registers(schedule: Any, epilogue: str) -> None:
    assert "LDL" not in schedule(256, 512, 64, epilogue=epilogue).program.listing()


@pytest.mark.parametrize("epilogue", NAMES[1:])
@pytest.mark.parametrize(("m", "n", "dtype"), [(3, 64, "bf16"), (2, 1088, "f16"), (5, 192, "tf32")])
def test_separate_kernels_are_right(checked: Checked, epilogue: str, m: int, n: int, dtype: str) -> None:
    checked(separate(m, n, epilogue, dtype))


@pytest.mark.parametrize("epilogue", ["scale", "swiglu", "rms_stats", "rms_scale"])
def test_fused_epilogues_save_time_and_memory_traffic(checked: Checked, epilogue: str) -> None:
    """The product's result need not be written and read again."""
    plain, fused = (checked(gemm.cooperative(256, 512, 128, epilogue=e, blocks=2)) for e in ("none", epilogue))
    after = checked(separate(256, 512, epilogue))
    sectors = "lts__t_sectors_srcunit_tex.sum"
    assert fused.cycles < plain.cycles + after.cycles
    assert fused[sectors] + 256 * 512 * 2 // 32 <= plain[sectors] + after[sectors]


def test_statistics_of_one_product_scale_the_next(checked: Checked) -> None:
    """RMSNorm over two products, as CODA fuses it: the first leaves sums of squares by tile, the second uses them."""
    statistics = gemm.basic(128, 256, 64, tile=(64, 64), epilogue="rms_stats", dtype="tf32")
    report = checked(statistics)
    sums, product = report.outputs["operand"], report.outputs["c"]
    np.testing.assert_allclose(sums.sum(axis=0), (product**2).sum(axis=1), rtol=1e-5)
    scaling = gemm.basic(128, 64, 256, tile=(64, 64), epilogue="rms_scale", dtype="tf32")
    assert scaling.args[3].shape == sums.shape


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epilogue": "relu"}, "epilogue='relu': choose one of 'none', 'bias'"),
        ({"epilogue": "bias", "n": 67}, "n=67: epilogues take columns by pairs"),
        ({"epilogue": "rotary", "n": 96}, "n=96: rotary embedding turns heads of 64 columns"),
        ({"epilogue": "bias", "dtype": "s8"}, "epilogue='bias': takes float32 sums"),
    ],
)
def test_epilogues_without_code_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gemm.basic(**{"m": 64, "n": 64, "k": 64, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((8, 12, "bias"), "n=12: a thread takes 8 columns"), ((8, 8, "none"), "epilogue='none': choose one of")],
)
def test_separate_kernels_without_code_are_refused(arguments: tuple[int, int, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        separate(*arguments)
