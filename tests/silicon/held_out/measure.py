"""Launches every case once on a GPU, with CuPy, from machine code: what a profiler counts. README.md has the command.

`python measure.py kernels.cubin`
"""

from __future__ import annotations

import sys
from typing import Any

import cupy
import numpy as np
from cases import all_cases


def on_device(value: Any) -> Any:
    """A copy of an array on the GPU; scalars as they are."""
    return cupy.asarray(value) if isinstance(value, np.ndarray) else value


module = cupy.RawModule(path=sys.argv[1])
for case in all_cases():
    arguments = [on_device(value) for value in case.arguments()]
    module.get_function(case.kernel)(case.grid, case.block, tuple(arguments))
    cupy.cuda.Device().synchronize()
    print(case.label, flush=True)
