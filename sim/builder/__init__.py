"""The builder: kernels written in Python, compiled to programs.

    @sim.kernel
    def saxpy(k, n, a, x, y):
        i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
        with k.if_(i < n):
            y[i] = a * x[i] + y[i]

The function runs once, on values that record what is done with them; the record
is optimised and becomes instructions as CUDA's compiler would make. `ThreadView`
documents what `k` offers.
"""

from sim.builder.errors import BuildError
from sim.builder.kernels import ArgSpec, Configured, Kernel, build, kernel
from sim.builder.view import ThreadView

__all__ = ["ArgSpec", "Configured", "Kernel", "BuildError", "ThreadView", "build", "kernel"]
