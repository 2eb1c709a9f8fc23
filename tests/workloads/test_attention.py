"""Attention workloads: the fused kernel and the unfused ones give NumPy's attention."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads import attention

Checked = Callable[[Launch], Report]


def test_fused_attention_is_right(checked: Checked) -> None:
    checked(attention.fused(64, heads=2))


@pytest.mark.parametrize(("n", "d"), [(32, 64), (20, 24)])
@pytest.mark.parametrize("make", [attention.scores, attention.weighted])
def test_unfused_kernels_are_right(checked: Checked, make: Callable[..., Launch], n: int, d: int) -> None:
    checked(make(n, heads=2, d=d))


def test_fused_attention_takes_whole_blocks() -> None:
    with pytest.raises(ValueError, match="n=65: the fused kernel takes whole blocks of 64"):
        attention.fused(65)
