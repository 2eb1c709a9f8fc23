"""Does occupancy equal NVIDIA's calculator and the card, and are impossible launches refused?"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.launch import LaunchError
from sim.occupancy import check_launch, occupancy
from sim.profile import load_profile

DATA = Path(__file__).parent / "data"
H200 = load_profile("h200")
#: cc 8.6 has no profile: the limits of cc 8.9 with 16 block slots (cuda_occupancy.h).
LIMITS = {
    "8.0": load_profile("a100_sxm_40gb").occupancy,
    "8.6": replace(load_profile("rtx_4090").occupancy, max_blocks_per_sm=16),
    "8.9": load_profile("rtx_4090").occupancy,
    "9.0": H200.occupancy,
}
LETTERS = {"warps": "W", "registers": "R", "shared memory": "S", "blocks": "B"}
#: kernels whose carve-out on the card differs from the rule in `driver_carveout_kib`: by name, block size, shared bytes
CARVEOUT_EXCEPTIONS = {
    ("mm_tiled", 1024, 8192): "32 KiB, the rule says 64: unexplained",
    ("triton_gemm", 256, 49152): "64 KiB, the rule says 100: unexplained",
    ("triton_gemm", 256, 147456): "the program asks for the largest",
    ("sdpa_cudnn", 384, 134144): "the program asks for the largest",
}


def calculator_cases() -> list[list[str]]:
    lines = (DATA / "occupancy_cases.txt").read_text().splitlines()
    return [line.replace("|", " ", 3).split(maxsplit=11) for line in lines if not line.startswith("#")]


def card_cases() -> list[dict[str, str]]:
    with open(DATA / "occupancy_h200.csv") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("case", calculator_cases(), ids=lambda case: f"cc{case[0]} {case[-1].split('|')[-1].strip()}")
def test_equals_the_calculator(case: list[str]) -> None:
    cc, threads, registers, shared, blocks, warps, by_registers, by_shared, by_warps, by_blocks, letters, rest = case
    got = occupancy(LIMITS[cc], int(threads), int(registers), int(shared))
    assert (got.blocks_per_sm, got.warps_per_sm) == (int(blocks), int(warps))
    assert (got.limit_registers, got.limit_shared) == (int(by_registers), int(by_shared))
    assert (got.limit_warps, got.limit_blocks) == (int(by_warps), int(by_blocks))
    assert "".join(LETTERS[name] for name in got.limiters) == _in_order(letters)
    assert got.shared_per_block_bytes == int(rest.split("|")[0])


def _in_order(letters: str) -> str:
    return "".join(letter for letter in "WRSB" if letter in letters)


def test_all_rows_of_the_calculator_are_read() -> None:
    assert len(calculator_cases()) == 59


@pytest.mark.parametrize("row", card_cases(), ids=lambda row: f"{row['kernel']}-{row['block_size']}")
def test_equals_the_card(row: dict[str, str]) -> None:
    config_kib = int(row["shared_config"]) // 1024
    got = occupancy(
        H200,
        int(row["block_size"]),
        int(row["registers"]),
        int(row["shared_static"]),
        int(row["shared_dynamic"]),
        carveout_kib=config_kib,
    )
    assert got.shared_carveout_bytes == int(row["shared_config"])
    assert got.shared_per_block_bytes == int(row["shared_allocated"])
    assert got.registers_per_thread == int(row["registers_allocated"])
    assert got.limit_blocks == int(row["limit_blocks"])
    assert got.limit_registers == int(row["limit_registers"])
    assert got.limit_shared_in_config == int(row["limit_shared"])
    assert got.limit_warps == int(row["limit_warps"])
    assert 100 * got.fraction == pytest.approx(float(row["occupancy_pct"]), abs=0.005)


@pytest.mark.parametrize("row", card_cases(), ids=lambda row: f"{row['kernel']}-{row['block_size']}")
def test_carveout_is_the_drivers(row: dict[str, str]) -> None:
    shared = int(row["shared_static"]) + int(row["shared_dynamic"])
    got = occupancy(H200, int(row["block_size"]), int(row["registers"]), shared)
    differs = (row["kernel"], int(row["block_size"]), shared) in CARVEOUT_EXCEPTIONS
    assert (got.shared_carveout_bytes != int(row["shared_config"])) == differs


@given(
    threads=st.integers(1, 1024),
    registers=st.integers(0, 255),
    shared=st.integers(0, 232448),
    carveout=st.sampled_from([None, *H200.occupancy.shared_carveouts_kib]),
)
def test_resident_blocks_fit_in_the_sm(threads: int, registers: int, shared: int, carveout: int | None) -> None:
    got = occupancy(H200, threads, registers, shared, carveout_kib=carveout)
    limits = H200.occupancy
    assert got.blocks_per_sm * got.shared_per_block_bytes <= got.shared_carveout_bytes
    assert got.warps_per_sm * 32 * got.registers_per_thread <= limits.registers_per_sm
    assert got.warps_per_sm <= limits.max_warps_per_sm
    assert got.blocks_per_sm <= limits.max_blocks_per_sm
    assert got.limiters


def test_carveout_rounds_up_to_one_the_gpu_has() -> None:
    assert occupancy(H200, 256, 32, 16384, carveout_kib=70).shared_carveout_bytes == 100 * 1024


def test_carveout_too_small_for_a_block_leaves_none() -> None:
    assert occupancy(H200, 256, 32, 16384, carveout_kib=8).blocks_per_sm == 0


def test_shared_memory_without_a_systems_share_does_not_limit() -> None:
    got = occupancy(load_profile("v100_sxm2"), 256, 32)
    assert (got.shared_per_block_bytes, got.limit_shared, got.blocks_per_sm) == (0, 32, 8)


@pytest.mark.parametrize(
    ("grid", "block", "registers", "shared", "message"),
    [
        ((1, 1, 1), (1025, 1, 1), 32, 0, r"block=\(1025, 1, 1\): x is at most 1024 \(cudaErrorInvalidConfiguration\)"),
        ((1, 1, 1), (32, 32, 2), 32, 0, r"2048 threads a block: at most 1024 .*cudaErrorInvalidConfiguration"),
        ((1, 1, 1), (1, 1, 65), 32, 0, r"z is at most 64 \(cudaErrorInvalidConfiguration\)"),
        ((0, 1, 1), (32, 1, 1), 32, 0, r"grid=\(0, 1, 1\): x must be at least 1 \(cudaErrorInvalidConfiguration\)"),
        ((1, 1, 1), (32, 0, 1), 32, 0, r"block=\(32, 0, 1\): y must be at least 1 \(cudaErrorInvalidConfiguration\)"),
        ((1, 65536, 1), (32, 1, 1), 32, 0, r"grid=.*: y is at most 65535 \(cudaErrorInvalidConfiguration\)"),
        ((1 << 31, 1, 1), (32, 1, 1), 32, 0, r"x is at most 2147483647 \(cudaErrorInvalidConfiguration\)"),
        ((1, 1, 1), (32, 1, 1), 32, 232449, r"232449 bytes of shared memory a block: at most 232448 .*InvalidValue"),
        ((1, 1, 1), (32, 1, 1), 256, 0, r"256 registers a thread: at most 255 .*cudaErrorLaunchOutOfResources"),
        ((1, 1, 1), (1024, 1, 1), 65, 0, r"too many resources requested for launch: .*cudaErrorLaunchOutOfResources"),
    ],
)
def test_impossible_launch_is_refused_by_cudas_name(
    grid: tuple[int, int, int], block: tuple[int, int, int], registers: int, shared: int, message: str
) -> None:
    with pytest.raises(LaunchError, match=message):
        check_launch(H200, grid, block, registers, shared)


def test_largest_possible_launch_is_allowed() -> None:
    check_launch(H200, ((1 << 31) - 1, 65535, 65535), (1024, 1, 1), 64, 232448)
