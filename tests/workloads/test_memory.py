"""Memory workloads: right results at any size, and the sectors that their patterns must cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads import memory

LOADS = "pipe_lsu_mem_global_op_ld.sum"
STORES = "pipe_lsu_mem_global_op_st.sum"
Checked = Callable[[Launch], Report]


def sectors_per_request(report: Report, op: str = LOADS) -> float:
    return report[f"l1tex__t_sectors_{op}"] / report[f"l1tex__t_requests_{op}"]


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("n", [1, 31, 256, 1030])
def test_copy_copies_any_size(checked: Checked, n: int, width: int) -> None:
    checked(memory.copy(n, width))


@pytest.mark.parametrize("n", [5, 1000])
def test_grid_stride_copy_reaches_every_element(checked: Checked, n: int) -> None:
    checked(memory.grid_stride_copy(n, grid=2, block=64))


@pytest.mark.parametrize(
    ("stride", "sectors"), [(1, 4), (2, 8), (3, 12), (4, 16), (5, 20), (7, 28), (8, 32), (12, 32), (32, 32)]
)
def test_strided_reads_touch_the_sectors_they_span(checked: Checked, stride: int, sectors: int) -> None:
    assert sectors_per_request(checked(memory.strided(512, stride))) == sectors


def test_strided_writes_touch_as_many(checked: Checked) -> None:
    assert sectors_per_request(checked(memory.strided(512, 4, write=True)), STORES) == 16


@pytest.mark.parametrize(("offset", "sectors"), [(0, 4), (1, 5), (4, 5), (8, 4), (31, 5), (32, 4)])
def test_an_offset_that_is_no_multiple_of_a_sector_costs_one_more(checked: Checked, offset: int, sectors: int) -> None:
    assert sectors_per_request(checked(memory.offset(512, offset))) == sectors


def test_gather_reads_what_the_index_says(checked: Checked) -> None:
    assert sectors_per_request(checked(memory.gather(5000))) > 4


@pytest.mark.parametrize("method", ["naive", "tiled", "padded"])
@pytest.mark.parametrize("n", [1, 32, 45, 96])
def test_transpose_transposes_any_size(checked: Checked, n: int, method: str) -> None:
    checked(memory.transpose(n, method))


def test_naive_transpose_writes_a_sector_a_lane_and_the_tiled_ones_do_not(checked: Checked) -> None:
    found = {m: sectors_per_request(checked(memory.transpose(64, m)), STORES) for m in ("naive", "tiled", "padded")}
    assert found == {"naive": 32, "tiled": 4, "padded": 4}


@pytest.mark.parametrize(("method", "conflicts"), [("tiled", 31), ("padded", 0)])
def test_a_column_of_the_tile_hits_one_bank_unless_padded(checked: Checked, method: str, conflicts: int) -> None:
    report = checked(memory.transpose(64, method))
    loads = report["smsp__inst_executed_op_shared_ld.sum"]
    assert report["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == conflicts * loads


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: memory.copy(0), "n=0: must be a positive integer"),
        (lambda: memory.copy(32, width=3), "width=3: choose one of 1, 2, 4"),
        (lambda: memory.offset(32, -1), "offset=-1: must not be negative"),
        (lambda: memory.transpose(32, "fast"), "method='fast': choose one of 'naive', 'tiled', 'padded'"),
    ],
)
def test_impossible_parameters_are_named(make: Callable[[], Launch], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
