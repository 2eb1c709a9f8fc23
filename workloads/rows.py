"""Row-wise kernels: softmax and layer norm, a block a row."""

from __future__ import annotations

from typing import Any

import numpy as np

import sim
from sim.launch import Launch
from workloads.data import centred, require_positive, workload

EPSILON = 1e-5  #: added to the variance in layer norm
MOST_NEGATIVE = -1e30  #: a maximum of nothing


@sim.kernel
def softmax_kernel(k: Any, x: Any, y: Any, d: Any) -> None:
    """y = softmax of each row of `d`: maximum, sum of exponentials, quotient; three passes over the row."""
    s = k.shared((32,), np.float32)
    t, threads = k.thread_idx.x, k.block_dim.x
    warps = threads >> 5
    row = k.block_idx.x * d

    m = k.var(MOST_NEGATIVE)
    for i in k.range_(t, d, threads):
        m.set(k.max(m, x[row + i]))
    for distance in (16, 8, 4, 2, 1):
        m.set(k.max(m, k.shfl_xor(m, distance)))
    with k.if_((t & 31) == 0):
        s[t >> 5] = m
    k.syncthreads()
    m.set(s[0])
    for w in k.range_(1, warps):
        m.set(k.max(m, s[w]))
    k.syncthreads()

    z = k.var(0.0)
    for i in k.range_(t, d, threads):
        z += k.exp(x[row + i] - m, fast=True)
    for distance in (16, 8, 4, 2, 1):
        z += k.shfl_xor(z, distance)
    with k.if_((t & 31) == 0):
        s[t >> 5] = z
    k.syncthreads()
    z.set(0.0)
    for w in k.range_(warps):
        z += s[w]

    for i in k.range_(t, d, threads):
        y[row + i] = k.exp(x[row + i] - m, fast=True) / z


@sim.kernel
def layernorm_kernel(k: Any, x: Any, y: Any, d: Any) -> None:
    """y = (x - mean) / sqrt(variance) of each row of `d`: sum and sum of squares in one pass, then the result."""
    s = k.shared((32,), np.float32)
    s2 = k.shared((32,), np.float32)
    t, threads = k.thread_idx.x, k.block_dim.x
    row = k.block_idx.x * d

    a, b = k.var(0.0), k.var(0.0)
    for i in k.range_(t, d, threads):
        v = x[row + i]
        a += v
        b += v * v
    for distance in (16, 8, 4, 2, 1):
        a += k.shfl_xor(a, distance)
        b += k.shfl_xor(b, distance)
    with k.if_((t & 31) == 0):
        s[t >> 5] = a
        s2[t >> 5] = b
    k.syncthreads()
    a.set(0.0)
    b.set(0.0)
    for w in k.range_(threads >> 5):
        a += s[w]
        b += s2[w]

    count = d.astype(np.float32)
    mean = a / count
    scale = k.rsqrt(b / count - mean * mean + EPSILON)
    for i in k.range_(t, d, threads):
        y[row + i] = (x[row + i] - mean) * scale


def _check_block(block: int) -> None:
    if block % 32 or not 32 <= block <= 1024:
        raise ValueError(f"block={block}: must be a multiple of 32 from 32 to 1024, so that every warp is whole")


@workload
def softmax(rows: int, d: int, block: int = 256) -> Launch:
    """Softmax of `rows` rows of `d` floats, `block` threads a row."""
    require_positive(rows=rows, d=d)
    _check_block(block)
    x = centred(rows * d)

    def right() -> dict[str, np.ndarray]:
        v = x.reshape(rows, d).astype(np.float64)
        e = np.exp(v - v.max(1, keepdims=True))
        return {"y": (e / e.sum(1, keepdims=True)).astype(np.float32).ravel()}

    launch = softmax_kernel.launch(rows, block, args=(x, sim.zeros(rows * d), d))
    params = {"rows": rows, "d": d, "block": block}
    return launch.with_(name="rows.softmax", params=params, expected=right, rtol=1e-4)


@workload
def layernorm(rows: int, d: int, block: int = 256) -> Launch:
    """Layer norm (no weights) of `rows` rows of `d` floats, `block` threads a row."""
    require_positive(rows=rows, d=d)
    _check_block(block)
    x = centred(rows * d)

    def right() -> dict[str, np.ndarray]:
        v = x.reshape(rows, d).astype(np.float64)
        mean = v.mean(1, keepdims=True)
        variance = (v * v).mean(1, keepdims=True) - mean * mean
        return {"y": ((v - mean) / np.sqrt(variance + EPSILON)).astype(np.float32).ravel()}

    launch = layernorm_kernel.launch(rows, block, args=(x, sim.zeros(rows * d), d))
    params = {"rows": rows, "d": d, "block": block}
    return launch.with_(name="rows.layernorm", params=params, expected=right, rtol=1e-3, atol=1e-4)
