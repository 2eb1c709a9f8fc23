"""Blocks of fixed work: waves, the tail they leave, and what registers and shared memory do to occupancy."""

from __future__ import annotations

from typing import Any

import numpy as np

import sim
from sim.launch import Launch
from workloads.data import require_positive, workload

FACTOR, STEP = 1.0001, 0.5


@sim.kernel
def spin_kernel(k: Any, y: Any, iters: Any) -> None:
    """A chain of `iters` multiply-adds a thread."""
    v = k.var(k.thread_idx.x.astype(np.float32))
    for _ in k.range_(iters):
        v.set(v * FACTOR + STEP)
    y[k.block_idx.x * k.block_dim.x + k.thread_idx.x] = v


@sim.kernel
def live_values_kernel(k: Any, y: Any, iters: Any, *, live: int) -> None:
    """`live` values that all stay in registers, each updated from the next one."""
    start = k.thread_idx.x.astype(np.float32)
    v = [k.var(start * 0.1 + float(j)) for j in range(live)]
    for _ in k.range_(iters):
        for j in range(live):
            v[j].set(v[j] * FACTOR + v[(j + 1) % live])
    total = k.var(0.0)
    for j in range(live):
        total += v[j]
    y[k.block_idx.x * k.block_dim.x + k.thread_idx.x] = total


@workload
def spin(grid: int, block: int = 256, iters: int = 2048) -> Launch:
    """`grid` equal blocks of arithmetic: time shows waves and their tail, and nothing else."""
    require_positive(grid=grid, block=block, iters=iters)

    def right() -> dict[str, np.ndarray]:
        v, factor = np.arange(block, dtype=np.float32), np.float64(np.float32(FACTOR))
        for _ in range(iters):
            v = (v * factor + STEP).astype(np.float32)
        return {"y": np.tile(v, grid)}

    launch = spin_kernel.launch(grid, block, args=(sim.zeros(grid * block), iters))
    params = {"grid": grid, "block": block, "iters": iters}
    return launch.with_(name="waves.spin", params=params, expected=right, flops=2.0 * grid * block * iters, rtol=1e-4)


@workload
def live_values(grid: int, live: int, shared_bytes: int = 0, block: int = 256, iters: int = 64) -> Launch:
    """`grid` blocks that hold `live` floats a thread in registers and `shared_bytes` of shared memory a block."""
    require_positive(grid=grid, live=live, block=block, iters=iters)

    def right() -> dict[str, np.ndarray]:
        start = np.arange(block, dtype=np.float32)
        v = [(start * np.float64(np.float32(0.1)) + j).astype(np.float32) for j in range(live)]
        for _ in range(iters):
            for j in range(live):
                v[j] = (v[j] * np.float64(np.float32(FACTOR)) + v[(j + 1) % live]).astype(np.float32)
        return {"y": np.tile(np.sum(v, 0, dtype=np.float64).astype(np.float32), grid)}

    launch = live_values_kernel.launch(
        grid, block, args=(sim.zeros(grid * block), iters), constants={"live": live}, shared_bytes=shared_bytes
    )
    params = {"grid": grid, "live": live, "shared_bytes": shared_bytes, "block": block, "iters": iters}
    return launch.with_(
        name="waves.live_values", params=params, expected=right, flops=2.0 * grid * block * iters * live, rtol=1e-3
    )
