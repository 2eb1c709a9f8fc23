"""What workloads share: arguments of the types that they state, NumPy's numbers as Python's."""

from __future__ import annotations

import inspect
import math
import typing

import numpy as np
import pytest

from sim.cli.workloads import find_workloads
from workloads import memory


def test_numpys_sizes_make_the_kernels_of_pythons() -> None:
    assert memory.copy(np.int64(64)).program is memory.copy(64).program
    assert memory.offset(64, offset=np.int64(3)).program is memory.offset(64, 3).program


WRONG = {
    int: ["x", None, 1.5, math.nan, (1,), True],
    bool: ["x", None, 1.5],
    float: ["x", None, (1,), True],
    str: [None, 1, ("x",)],
}


@pytest.mark.parametrize("name", sorted(find_workloads()))
def test_an_argument_of_a_wrong_type_is_named(name: str) -> None:
    workload = find_workloads()[name]
    parameters = inspect.signature(workload).parameters
    good = {p.name: 64 for p in parameters.values() if p.default is p.empty}
    for parameter, kind in typing.get_type_hints(workload).items():
        for wrong in WRONG.get(kind, ["x", 1.5, (1,), ("x", "y")]) if parameter != "return" else ():
            with pytest.raises(ValueError, match=rf"^{parameter}=.*: must be (an? |[23] |True or)"):
                workload(**{**good, parameter: wrong})
