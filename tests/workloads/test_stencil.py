"""The stencil: right results with and without an inside."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.launch import Launch
from sim.report import Report
from workloads import stencil


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_the_stencil_is_right_at_any_size(checked: Callable[[Launch], Report], n: int) -> None:
    checked(stencil.five_point(n))
