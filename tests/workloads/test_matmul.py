"""Matrix products on plain cores: right results at any size, and the traffic that each step saves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads import matmul

Checked = Callable[[Launch], Report]
LOADED = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"


@pytest.mark.parametrize("coalesced", [True, False])
@pytest.mark.parametrize("n", [1, 33, 64])
def test_naive_is_right_at_any_size(checked: Checked, n: int, coalesced: bool) -> None:
    checked(matmul.naive(n, coalesced))


@pytest.mark.parametrize("tile", [8, 16, 32])
@pytest.mark.parametrize("n", [1, 33, 64])
def test_tiled_is_right_at_any_size(checked: Checked, n: int, tile: int) -> None:
    checked(matmul.tiled(n, tile))


@pytest.mark.parametrize("n", [1, 64, 70])
def test_register_tiled_is_right_at_any_size(checked: Checked, n: int) -> None:
    checked(matmul.register_tiled(n))


@pytest.mark.parametrize("method", ["row", "warp"])
@pytest.mark.parametrize("n", [1, 45, 128])
def test_gemv_is_right_at_any_size(checked: Checked, n: int, method: str) -> None:
    checked(matmul.gemv(n, method))


def test_each_step_loads_less_from_memory(checked: Checked) -> None:
    launches = [matmul.naive(64, False), matmul.naive(64), matmul.tiled(64, 16), matmul.tiled(64, 32)]
    loaded = [checked(launch)[LOADED] for launch in launches]
    assert loaded == sorted(loaded, reverse=True) and len(set(loaded)) == 4


def test_a_tile_loads_each_element_once_for_each_tile_of_the_other_matrix(checked: Checked) -> None:
    n, tile = 64, 16
    assert checked(matmul.tiled(n, tile))[LOADED] == 2 * n**3 / tile / 8


def test_an_odd_tile_is_refused() -> None:
    with pytest.raises(ValueError, match="tile=5: choose one of 4, 8, 16, 32"):
        matmul.tiled(32, 5)
