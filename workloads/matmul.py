"""Matrix products C = A B of square float matrices, from the naive kernel to tensor cores, and matrix times vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import sim
from sim.launch import Launch
from workloads.data import blocks_for, centred, require_choice, require_positive, workload
from workloads.tensor import gemm

__all__ = ["gemm", "gemv", "naive", "register_tiled", "tiled"]

NAIVE_BLOCK = (32, 8)
REGISTER_TILE = 64  #: output tile of `register_tiled`, square
REGISTER_DEPTH = 16
REGISTER_THREADS = 256  #: 16 x 16, each computing 4 x 4
GEMV_BLOCK = 128


@sim.kernel
def naive_coalesced_kernel(k: Any, a: Any, b: Any, c: Any, n: Any) -> None:
    """A thread an element of C; neighbouring lanes take neighbouring columns."""
    column = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    row = k.block_idx.y * k.block_dim.y + k.thread_idx.y
    with k.if_((row < n) & (column < n)):
        s = k.var(0.0)
        for i in k.range_(n):
            s += a[row * n + i] * b[i * n + column]
        c[row * n + column] = s


@sim.kernel
def naive_uncoalesced_kernel(k: Any, a: Any, b: Any, c: Any, n: Any) -> None:
    """A thread an element of C; neighbouring lanes take neighbouring rows, a whole row apart in memory."""
    row = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    column = k.block_idx.y * k.block_dim.y + k.thread_idx.y
    with k.if_((row < n) & (column < n)):
        s = k.var(0.0)
        for i in k.range_(n):
            s += a[row * n + i] * b[i * n + column]
        c[row * n + column] = s


@sim.kernel
def tiled_kernel(k: Any, a: Any, b: Any, c: Any, n: Any, *, tile: int) -> None:
    """A block a `tile` x `tile` piece of C; pieces of A and B pass through shared memory."""
    sa = k.shared((tile, tile), np.float32)
    sb = k.shared((tile, tile), np.float32)
    tx, ty = k.thread_idx.x, k.thread_idx.y
    column = k.block_idx.x * tile + tx
    row = k.block_idx.y * tile + ty
    s = k.var(0.0)
    for t in k.range_((n + tile - 1) // tile):
        sa[ty, tx] = a.load(row * n + t * tile + tx, where=(row < n) & (t * tile + tx < n))
        sb[ty, tx] = b.load((t * tile + ty) * n + column, where=(column < n) & (t * tile + ty < n))
        k.syncthreads()
        for i in range(tile):
            s += sa[ty, i] * sb[i, tx]
        k.syncthreads()
    with k.if_((row < n) & (column < n)):
        c[row * n + column] = s


@sim.kernel
def register_tiled_kernel(k: Any, a: Any, b: Any, c: Any, n: Any, *, edges: bool) -> None:
    """A block a 64 x 64 piece of C, a thread 4 x 4 of it: 16 multiply-adds for 8 shared words."""
    sa = k.shared((REGISTER_DEPTH, REGISTER_TILE), np.float32)
    sb = k.shared((REGISTER_DEPTH, REGISTER_TILE), np.float32)
    t = k.thread_idx.x
    tx, ty = t % 16, t // 16
    row0, column0 = k.block_idx.y * REGISTER_TILE, k.block_idx.x * REGISTER_TILE
    acc = [[k.var(0.0) for _ in range(4)] for _ in range(4)]
    for k0 in k.range_(0, n, REGISTER_DEPTH):
        for i in range(4):
            e = t + i * REGISTER_THREADS
            _fetch(sa, (e % 16, e // 16), a, row0 + e // 16, k0 + e % 16, n, edges)
            _fetch(sb, (e // 64, e % 64), b, k0 + e // 64, column0 + e % 64, n, edges)
        k.syncthreads()
        for depth in range(REGISTER_DEPTH):
            x = [sa[depth, ty * 4 + i] for i in range(4)]
            y = [sb[depth, tx * 4 + j] for j in range(4)]
            for i in range(4):
                for j in range(4):
                    acc[i][j] += x[i] * y[j]
        k.syncthreads()
    for i in range(4):
        for j in range(4):
            row, column = row0 + ty * 4 + i, column0 + tx * 4 + j
            if edges:
                with k.if_((row < n) & (column < n)):
                    c[row * n + column] = acc[i][j]
            else:
                c[row * n + column] = acc[i][j]


def _fetch(tile: Any, at: tuple[Any, Any], x: Any, row: Any, column: Any, n: Any, edges: bool) -> None:
    """tile[at] = x[row, column]; zero outside the matrix when `edges`."""
    inside = (row < n) & (column < n) if edges else None
    tile[at] = x.load(row * n + column, where=inside)


@sim.kernel
def gemv_row_kernel(k: Any, a: Any, x: Any, y: Any, n: Any) -> None:
    """A thread a row: lanes read a whole row apart."""
    row = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(row < n):
        s = k.var(0.0)
        for i in k.range_(n):
            s += a[row * n + i] * x[i]
        y[row] = s


@sim.kernel
def gemv_warp_kernel(k: Any, a: Any, x: Any, y: Any, n: Any) -> None:
    """A warp a row: lanes read neighbours, then add by shuffles."""
    row = (k.block_idx.x * k.block_dim.x + k.thread_idx.x) // 32
    lane = k.thread_idx.x & 31
    with k.if_(row < n):
        s = k.var(0.0)
        for i in k.range_(lane, n, 32):
            s += a[row * n + i] * x[i]
        for distance in (16, 8, 4, 2, 1):
            s += k.shfl_down(s, distance)
        with k.if_(lane == 0):
            y[row] = s


def _product(a: np.ndarray, b: np.ndarray, n: int) -> Callable[[], dict[str, np.ndarray]]:
    return lambda: {"c": (a.reshape(n, n) @ b.reshape(n, n)).ravel()}


def _finish(launch: Launch, name: str, params: dict[str, Any], a: np.ndarray, b: np.ndarray) -> Launch:
    n = params["n"]
    return launch.with_(
        name=f"matmul.{name}",
        params=params,
        expected=_product(a, b, n),
        flops=2.0 * n**3,
        rtol=1e-4,
        atol=1e-6 * n,
    )


@workload
def naive(n: int, coalesced: bool = True, block: tuple[int, int] = NAIVE_BLOCK) -> Launch:
    """An `n` x `n` product, a thread an element; `coalesced` says which way lanes run along B."""
    require_positive(n=n)
    a, b = centred(n * n), centred(n * n, seed=8)
    kernel = naive_coalesced_kernel if coalesced else naive_uncoalesced_kernel
    grid = (blocks_for(n, block[0]), blocks_for(n, block[1]))
    launch = kernel.launch(grid, block, args=(a, b, sim.zeros(n * n), n))
    return _finish(launch, "naive", {"n": n, "coalesced": coalesced, "block": tuple(block)}, a, b)


@workload
def tiled(n: int, tile: int = 32) -> Launch:
    """An `n` x `n` product through shared tiles of `tile` x `tile`, a thread an element."""
    require_positive(n=n)
    require_choice("tile", tile, (4, 8, 16, 32))
    a, b = centred(n * n), centred(n * n, seed=8)
    tiles = blocks_for(n, tile)
    launch = tiled_kernel.launch(
        (tiles, tiles), (tile, tile), args=(a, b, sim.zeros(n * n), n), constants={"tile": tile}
    )
    return _finish(launch, "tiled", {"n": n, "tile": tile}, a, b)


@workload
def register_tiled(n: int) -> Launch:
    """An `n` x `n` product through 64 x 64 tiles, 4 x 4 elements a thread."""
    require_positive(n=n)
    a, b = centred(n * n), centred(n * n, seed=8)
    tiles = blocks_for(n, REGISTER_TILE)
    edges = n % REGISTER_TILE != 0
    launch = register_tiled_kernel.launch(
        (tiles, tiles), REGISTER_THREADS, args=(a, b, sim.zeros(n * n), n), constants={"edges": edges}
    )
    return _finish(launch, "register_tiled", {"n": n}, a, b)


@workload
def gemv(n: int, method: str = "warp") -> Launch:
    """y = A x with an `n` x `n` matrix; `method`: a thread a `"row"`, or a `"warp"` a row."""
    require_positive(n=n)
    require_choice("method", method, ("row", "warp"))
    a, x = centred(n * n), centred(n, seed=8)
    threads = n if method == "row" else n * 32
    kernel = gemv_row_kernel if method == "row" else gemv_warp_kernel
    launch = kernel.launch(blocks_for(threads, GEMV_BLOCK), GEMV_BLOCK, args=(a, x, sim.zeros(n), n))
    return launch.with_(
        name="matmul.gemv",
        params={"n": n, "method": method},
        expected=lambda: {"y": a.reshape(n, n) @ x},
        flops=2.0 * n * n,
        rtol=1e-3,
        atol=1e-5 * n**0.5,
    )
