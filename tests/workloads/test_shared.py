"""Shared-memory workloads: right results, and the wavefronts that banks must cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads import shared

Checked = Callable[[Launch], Report]
LOADS = "smsp__inst_executed_op_shared_ld.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"


@pytest.mark.parametrize(
    ("stride", "ways"), [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (31, 1), (32, 32), (33, 1)]
)
def test_a_stride_costs_the_words_of_its_worst_bank(checked: Checked, stride: int, ways: int) -> None:
    report = checked(shared.bank_stride(stride, iters=8, grid=1, block=64))
    assert report[WAVEFRONTS] == ways * report[LOADS]


@pytest.mark.parametrize("method", shared.REDUCTIONS)
@pytest.mark.parametrize("n", [1, 256, 1000])
def test_reductions_add_everything(checked: Checked, n: int, method: str) -> None:
    checked(shared.reduction(n, method))


def test_only_the_strided_reduction_has_bank_conflicts(checked: Checked) -> None:
    conflicts = {method: checked(shared.reduction(512, method))[CONFLICTS] for method in shared.REDUCTIONS}
    assert {method for method, count in conflicts.items() if count} == {"strided"}


@pytest.mark.parametrize("bins", [1, 16, 300])
@pytest.mark.parametrize("n", [7, 5000])
def test_histograms_count_everything(checked: Checked, n: int, bins: int) -> None:
    checked(shared.histogram(n, bins, grid=3))
