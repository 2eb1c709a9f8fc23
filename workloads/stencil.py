"""A five-point stencil: neighbours that the caches may or may not still hold."""

from __future__ import annotations

from typing import Any

import numpy as np

import sim
from sim.launch import Launch
from workloads.data import blocks_for, centred, require_positive, workload

BLOCK = (32, 8)
WEIGHT = 0.2


@sim.kernel
def five_point_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """y = the mean of a point and its four neighbours, inside the border."""
    c = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    r = k.block_idx.y * k.block_dim.y + k.thread_idx.y
    with k.if_((c > 0) & (r > 0) & (c < n - 1) & (r < n - 1)):
        y[r * n + c] = WEIGHT * (
            x[r * n + c] + x[r * n + c - 1] + x[r * n + c + 1] + x[(r - 1) * n + c] + x[(r + 1) * n + c]
        )


@workload
def five_point(n: int) -> Launch:
    """One sweep of the stencil over an `n` x `n` grid; the border stays zero."""
    require_positive(n=n)
    x = centred(n * n)

    def right() -> dict[str, np.ndarray]:
        v, y = x.reshape(n, n), np.zeros((n, n), np.float32)
        if n > 2:
            around = v[1:-1, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] + v[:-2, 1:-1] + v[2:, 1:-1]
            y[1:-1, 1:-1] = np.float32(WEIGHT) * around
        return {"y": y.ravel()}

    grid = (blocks_for(n, BLOCK[0]), blocks_for(n, BLOCK[1]))
    launch = five_point_kernel.launch(grid, BLOCK, args=(x, sim.zeros(n * n), n))
    flops = 5.0 * max(n - 2, 0) ** 2
    return launch.with_(name="stencil.five_point", params={"n": n}, expected=right, flops=flops, atol=1e-5)
