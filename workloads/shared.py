"""Shared memory: bank conflicts, the classic steps of a reduction, and histograms by shared atomics."""

from __future__ import annotations

from typing import Any

import numpy as np

import sim
from sim.launch import Launch
from workloads.data import blocks_for, centred, indices, require_choice, require_positive, workload

BLOCK = 256
WARPS = BLOCK // 32
BANK_WORDS = 8192  #: words of shared memory that `bank_stride` walks over: 32 KiB
ALL_LANES = 0xFFFFFFFF
REDUCTIONS = ("modulo", "strided", "sequential", "shuffle")


@sim.kernel
def bank_stride_kernel(k: Any, y: Any, stride: Any, iters: Any) -> None:
    """Lane l reads word l * stride, then the next word, `iters` times."""
    words = k.shared_dynamic(np.float32)
    t = k.thread_idx.x
    for i in k.range_(t, BANK_WORDS, k.block_dim.x):
        words[i] = i.astype(np.float32)
    k.syncthreads()
    total = k.var(0.0)
    at = k.var(((t & 31) * stride) % BANK_WORDS)
    for _ in k.range_(iters):
        total += words[at]
        at.set((at + 1) & (BANK_WORDS - 1))
    y[k.block_idx.x * k.block_dim.x + t] = total


@sim.kernel
def reduce_modulo_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """Step 1: threads whose index is a multiple of 2d add; every warp diverges."""
    s = k.shared((BLOCK,), np.float32)
    t = k.thread_idx.x
    i = k.block_idx.x * BLOCK + t
    s[t] = x.load(i, where=i < n, otherwise=0.0)
    k.syncthreads()
    d = 1
    while d < BLOCK:
        with k.if_(t % (2 * d) == 0):
            s[t] = s[t] + s[t + d]
        k.syncthreads()
        d *= 2
    with k.if_(t == 0):
        y[k.block_idx.x] = s[0]


@sim.kernel
def reduce_strided_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """Step 2: the first threads add, 2d apart; no divergence, but bank conflicts."""
    s = k.shared((BLOCK,), np.float32)
    t = k.thread_idx.x
    i = k.block_idx.x * BLOCK + t
    s[t] = x.load(i, where=i < n, otherwise=0.0)
    k.syncthreads()
    d = 1
    while d < BLOCK:
        at = 2 * d * t
        with k.if_(at < BLOCK):
            s[at] = s[at] + s[at + d]
        k.syncthreads()
        d *= 2
    with k.if_(t == 0):
        y[k.block_idx.x] = s[0]


@sim.kernel
def reduce_sequential_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """Step 3: the first d threads add what lies d further; neither divergence nor conflicts."""
    s = k.shared((BLOCK,), np.float32)
    t = k.thread_idx.x
    i = k.block_idx.x * BLOCK + t
    s[t] = x.load(i, where=i < n, otherwise=0.0)
    k.syncthreads()
    d = BLOCK // 2
    while d > 0:
        with k.if_(t < d):
            s[t] = s[t] + s[t + d]
        k.syncthreads()
        d //= 2
    with k.if_(t == 0):
        y[k.block_idx.x] = s[0]


@sim.kernel
def reduce_shuffle_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """Step 4: each warp reduces in registers, then the first warp reduces the warps."""
    s = k.shared((WARPS,), np.float32)
    t = k.thread_idx.x
    i = k.block_idx.x * BLOCK + t
    v = x.load(i, where=i < n, otherwise=0.0)
    for distance in (16, 8, 4, 2, 1):
        v = v + k.shfl_down(v, distance)
    with k.if_((t & 31) == 0):
        s[t >> 5] = v
    k.syncthreads()
    with k.if_(t < WARPS):
        w = s[t]
        for distance in (4, 2, 1):
            w = w + k.shfl_down(w, distance)
        with k.if_(t == 0):
            y[k.block_idx.x] = w


@sim.kernel
def histogram_kernel(k: Any, x: Any, h: Any, n: Any, bins: Any) -> None:
    """Count x % bins in shared memory, then add the block's counts to the result."""
    counts = k.shared_dynamic(np.int32)
    for i in k.range_(k.thread_idx.x, bins, k.block_dim.x):
        counts[i] = 0
    k.syncthreads()
    for i in k.range_(k.block_idx.x * k.block_dim.x + k.thread_idx.x, n, k.grid_dim.x * k.block_dim.x):
        k.atomic_add(counts, k.divmod_truncating(x[i], bins)[1], 1)  # C's %, which x >= 0 makes the same
    k.syncthreads()
    for i in k.range_(k.thread_idx.x, bins, k.block_dim.x):
        k.atomic_add(h, i, counts[i])


@workload
def bank_stride(stride: int, iters: int = 256, grid: int = 264, block: int = BLOCK) -> Launch:
    """`grid` blocks whose lanes read shared words `stride` apart, `iters` times; 32 KiB a block."""
    require_positive(iters=iters, grid=grid, block=block)
    if stride < 0:
        raise ValueError(f"stride={stride}: must not be negative")

    def right() -> dict[str, np.ndarray]:
        at = np.arange(block) % 32 * stride % BANK_WORDS
        walk = (at[:, None] + np.arange(iters)) % BANK_WORDS
        return {"y": np.tile(walk.sum(1).astype(np.float32), grid)}

    args = (sim.zeros(grid * block), stride, iters)
    launch = bank_stride_kernel.launch(grid, block, args=args, shared_bytes=BANK_WORDS * 4)
    params = {"stride": stride, "iters": iters, "grid": grid, "block": block}
    return launch.with_(name="shared.bank_stride", params=params, expected=right, rtol=1e-4)


@workload
def reduction(n: int, method: str = "sequential") -> Launch:
    """Sums of `n` floats, one for each 256, by one of the four classic steps.

    `method`: `"modulo"` (divergent), `"strided"` (bank conflicts), `"sequential"`
    (neither), `"shuffle"` (in registers).
    """
    require_positive(n=n)
    require_choice("method", method, REDUCTIONS)
    kernel = {
        "modulo": reduce_modulo_kernel,
        "strided": reduce_strided_kernel,
        "sequential": reduce_sequential_kernel,
        "shuffle": reduce_shuffle_kernel,
    }[method]
    x, grid = centred(n), blocks_for(n, BLOCK)

    def right() -> dict[str, np.ndarray]:
        padded = np.zeros(grid * BLOCK)
        padded[:n] = x
        return {"y": padded.reshape(grid, BLOCK).sum(1).astype(np.float32)}

    launch = kernel.launch(grid, BLOCK, args=(x, sim.zeros(grid), n))
    params = {"n": n, "method": method}
    return launch.with_(name="shared.reduction", params=params, expected=right, flops=float(n), rtol=1e-4, atol=1e-4)


@workload
def histogram(n: int, bins: int, grid: int = 264) -> Launch:
    """Counts of `n` random integers modulo `bins`, by shared atomics and one global addition a block and bin."""
    require_positive(n=n, bins=bins, grid=grid)
    x = indices(n, n)
    launch = histogram_kernel.launch(grid, BLOCK, args=(x, sim.zeros(bins, np.int32), n, bins), shared_bytes=bins * 4)
    return launch.with_(
        name="shared.histogram",
        params={"n": n, "bins": bins, "grid": grid},
        expected=lambda: {"h": np.bincount(x % bins, minlength=bins).astype(np.int32)},
    )
