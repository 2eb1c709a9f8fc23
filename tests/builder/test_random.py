"""Do random kernels compute what their statements mean?"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.builder import random_kernels as rk
from tests.builder.run import run

THREADS, BLOCKS = 40, 2
SIZE = THREADS * BLOCKS * rk.SLOTS


@pytest.mark.parametrize("seed", range(60))
def test_random_kernel(seed):
    r = random.Random(seed)
    program, n = rk.statements(r), r.randrange(0, 40)
    x, y = np.full(SIZE, -1, np.int32), (np.arange(SIZE, dtype=np.int32) * 7) % 1000
    want_x, want_y = x.copy(), y.copy()
    try:
        rk.interpret(program, THREADS, BLOCKS, n, want_x, want_y)
    except rk.Endless:
        pytest.skip("too many steps")
    run(rk.random_kernel, (x, y, n), grid=BLOCKS, block=THREADS, program=program)
    np.testing.assert_array_equal(y, want_y)
    np.testing.assert_array_equal(x, want_x)
