"""Row workloads: right results for short, long and odd rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads import rows

Checked = Callable[[Launch], Report]


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("d", [1, 100, 520])
@pytest.mark.parametrize("make", [rows.softmax, rows.layernorm])
def test_rows_of_any_length_are_right(checked: Checked, make: Callable[..., Launch], d: int, block: int) -> None:
    checked(make(3, d, block))


@pytest.mark.parametrize("block", [16, 33, 2048])
def test_a_block_must_be_of_whole_warps(block: int) -> None:
    with pytest.raises(ValueError, match=f"block={block}: must be a multiple of 32"):
        rows.softmax(4, 64, block)
