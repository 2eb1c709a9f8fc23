"""Attention: in float32 as a student writes it, unfused and fused, here; on tensor cores in the modules imported."""

from __future__ import annotations

from typing import Any

import numpy as np

import sim
from sim.launch import Launch
from workloads.data import centred, require_positive, workload
from workloads.flash import flash
from workloads.flash_backward import flash_training
from workloads.flash_hopper import flash_hopper
from workloads.flash_original import flash_original
from workloads.unfused import unfused

__all__ = ["flash", "flash_hopper", "flash_original", "flash_training", "fused", "scores", "unfused", "weighted"]

HEAD = 64  #: head dimension of the fused kernel
ROWS = 64  #: query rows a block of the fused kernel, one a thread
COLUMNS = 32  #: keys and values held in shared memory at a time
SCALE = 0.125  #: 1 / sqrt(64)
MOST_NEGATIVE = -1e30
BLOCK = 16  #: the unfused kernels use 16 x 16 threads


@sim.kernel
def fused_kernel(k: Any, q: Any, keys: Any, values: Any, o: Any, n: Any) -> None:
    """Softmax(q k^T / 8) v, a thread a query row, with a running maximum and sum."""
    sk = k.shared((COLUMNS, HEAD), np.float32)
    sv = k.shared((COLUMNS, HEAD), np.float32)
    t = k.thread_idx.x
    head = k.block_idx.y * n * HEAD
    row = head + (k.block_idx.x * k.block_dim.x + t) * HEAD
    query = [q[row + i] for i in range(HEAD)]
    out = [k.var(0.0) for _ in range(HEAD)]
    m, total = k.var(MOST_NEGATIVE), k.var(0.0)
    for c0 in k.range_(0, n, COLUMNS):
        for e in k.range_(t, COLUMNS * HEAD, k.block_dim.x):
            sk[e // HEAD, e % HEAD] = keys[head + c0 * HEAD + e]
            sv[e // HEAD, e % HEAD] = values[head + c0 * HEAD + e]
        k.syncthreads()
        for j in k.range_(COLUMNS, unroll=1):
            s = k.var(0.0)
            for i in range(HEAD):
                s += query[i] * sk[j, i]
            score = s * SCALE
            higher = k.max(m, score)
            keep, p = k.exp(m - higher, fast=True), k.exp(score - higher, fast=True)
            total.set(total * keep + p)
            for i in range(HEAD):
                out[i].set(out[i] * keep + p * sv[j, i])
            m.set(higher)
        k.syncthreads()
    for i in range(HEAD):
        o[row + i] = out[i] / total


@sim.kernel
def scores_kernel(k: Any, q: Any, keys: Any, s: Any, n: Any, d: Any) -> None:
    """s = q k^T / 8, a thread a score: both rows are read along d, so lanes read keys a row apart."""
    c = k.block_idx.x * BLOCK + k.thread_idx.x
    r = k.block_idx.y * BLOCK + k.thread_idx.y
    h = k.block_idx.z
    with k.if_((r < n) & (c < n)):
        total = k.var(0.0)
        for i in k.range_(d):
            total += q[(h * n + r) * d + i] * keys[(h * n + c) * d + i]
        s[(h * n + r) * n + c] = total * SCALE


@sim.kernel
def weighted_kernel(k: Any, p: Any, values: Any, o: Any, n: Any, d: Any) -> None:
    """o = p v, a thread an element of the output."""
    c = k.block_idx.x * BLOCK + k.thread_idx.x
    r = k.block_idx.y * BLOCK + k.thread_idx.y
    h = k.block_idx.z
    with k.if_((r < n) & (c < d)):
        total = k.var(0.0)
        for j in k.range_(n):
            total += p[(h * n + r) * n + j] * values[(h * n + j) * d + c]
        o[(h * n + r) * d + c] = total


def _inputs(heads: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return tuple(centred(heads * n * d, seed=seed) for seed in (7, 8, 9))  # type: ignore[return-value]


def _scores(q: np.ndarray, keys: np.ndarray, heads: int, n: int, d: int) -> np.ndarray:
    """Scores [heads, n, n]."""
    return q.reshape(heads, n, d) @ keys.reshape(heads, n, d).transpose(0, 2, 1) * np.float32(SCALE)


def _softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@workload
def fused(n: int, heads: int = 16) -> Launch:
    """Attention over `n` positions (a multiple of 64) and `heads` heads of 64, scores kept on chip."""
    require_positive(n=n, heads=heads)
    if n % ROWS:
        raise ValueError(f"n={n}: the fused kernel takes whole blocks of {ROWS} positions")
    q, keys, values = _inputs(heads, n, HEAD)

    def right() -> dict[str, np.ndarray]:
        weights = _softmax(_scores(q, keys, heads, n, HEAD))
        return {"o": (weights @ values.reshape(heads, n, HEAD)).ravel()}

    args = (q, keys, values, sim.zeros(heads * n * HEAD), n)
    launch = fused_kernel.launch((n // ROWS, heads), ROWS, args=args)
    flops = 4.0 * heads * n * n * HEAD
    params = {"n": n, "heads": heads}
    return launch.with_(name="attention.fused", params=params, expected=right, flops=flops, rtol=1e-3, atol=1e-5)


@workload
def scores(n: int, heads: int = 16, d: int = HEAD) -> Launch:
    """Scores of `n` queries against `n` keys, `heads` heads of `d`; the score matrix goes to memory."""
    require_positive(n=n, heads=heads, d=d)
    q, keys, _ = _inputs(heads, n, d)
    grid = (-(-n // BLOCK), -(-n // BLOCK), heads)
    launch = scores_kernel.launch(grid, (BLOCK, BLOCK), args=(q, keys, sim.zeros(heads * n * n), n, d))
    return launch.with_(
        name="attention.scores",
        params={"n": n, "heads": heads, "d": d},
        expected=lambda: {"s": _scores(q, keys, heads, n, d).ravel()},
        flops=2.0 * heads * n * n * d,
        rtol=1e-3,
        atol=1e-5,
    )


@workload
def weighted(n: int, heads: int = 16, d: int = HEAD) -> Launch:
    """Softmaxed scores [`heads`, `n`, `n`] times values [`heads`, `n`, `d`]."""
    require_positive(n=n, heads=heads, d=d)
    p = centred(heads * n * n, seed=10)
    values = _inputs(heads, n, d)[2]
    grid = (-(-d // BLOCK), -(-n // BLOCK), heads)
    launch = weighted_kernel.launch(grid, (BLOCK, BLOCK), args=(p, values, sim.zeros(heads * n * d), n, d))
    return launch.with_(
        name="attention.weighted",
        params={"n": n, "heads": heads, "d": d},
        expected=lambda: {"o": (p.reshape(heads, n, n) @ values.reshape(heads, n, d)).ravel()},
        flops=2.0 * heads * n * n * d,
        rtol=1e-3,
        atol=1e-4,
    )
