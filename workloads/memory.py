"""Memory access patterns: how the addresses of a warp become sectors, and sectors become time."""

from __future__ import annotations

from typing import Any

import numpy as np

import sim
from sim.launch import Launch
from workloads.data import blocks_for, centred, indices, require_choice, require_positive, workload

TILE = 32  #: transposed at a time: a tile of 32 x 32
TILE_ROWS = 8  #: rows of threads a block has; each thread moves 4 elements


@sim.kernel
def copy_kernel(k: Any, x: Any, y: Any, vectors: Any, *, width: int, tail: int) -> None:
    """y = x, `width` elements a thread; the thread after the last whole vector copies the `tail` that is left."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < vectors):
        if width == 1:
            y[i] = x[i]
        else:
            y.store(i * width, x.load(i * width, width=width))
    if tail:
        with k.if_(i == vectors):
            for j in range(tail):
                y[i * width + j] = x[i * width + j]


@sim.kernel
def grid_stride_copy_kernel(k: Any, x: Any, y: Any, n: Any) -> None:
    """y = x with a fixed grid that walks over the array."""
    for i in k.range_(k.block_idx.x * k.block_dim.x + k.thread_idx.x, n, k.grid_dim.x * k.block_dim.x):
        y[i] = x[i]


@sim.kernel
def strided_read_kernel(k: Any, x: Any, y: Any, n: Any, stride: Any) -> None:
    """y[i] = x[i * stride]."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[i * stride]


@sim.kernel
def strided_write_kernel(k: Any, x: Any, y: Any, n: Any, stride: Any) -> None:
    """y[i * stride] = x[i]."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i * stride] = x[i]


@sim.kernel
def offset_kernel(k: Any, x: Any, y: Any, n: Any, offset: Any) -> None:
    """y[i] = x[i + offset]."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[i + offset]


@sim.kernel
def gather_kernel(k: Any, index: Any, x: Any, y: Any, n: Any) -> None:
    """y[i] = x[index[i]]."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[index[i]]


@sim.kernel
def transpose_naive_kernel(k: Any, x: Any, y: Any, n: Any, *, edges: bool) -> None:
    """y = x transposed, straight from memory to memory: reads are coalesced, writes are not."""
    column = k.block_idx.x * TILE + k.thread_idx.x
    row = k.block_idx.y * TILE + k.thread_idx.y
    for j in range(0, TILE, TILE_ROWS):
        if edges:
            with k.if_((column < n) & (row + j < n)):
                y[column * n + (row + j)] = x[(row + j) * n + column]
        else:
            y[column * n + (row + j)] = x[(row + j) * n + column]


@sim.kernel
def transpose_tile_kernel(k: Any, x: Any, y: Any, n: Any, *, padding: int, edges: bool) -> None:
    """y = x transposed through a shared tile whose rows are `padding` words longer than 32."""
    tile = k.shared((TILE, TILE + padding), np.float32)
    tx, ty = k.thread_idx.x, k.thread_idx.y
    column = k.block_idx.x * TILE + tx
    row = k.block_idx.y * TILE + ty
    for j in range(0, TILE, TILE_ROWS):
        if edges:
            with k.if_((column < n) & (row + j < n)):
                tile[ty + j, tx] = x[(row + j) * n + column]
        else:
            tile[ty + j, tx] = x[(row + j) * n + column]
    k.syncthreads()
    out_column = k.block_idx.y * TILE + tx
    out_row = k.block_idx.x * TILE + ty
    for j in range(0, TILE, TILE_ROWS):
        if edges:
            with k.if_((out_column < n) & (out_row + j < n)):
                y[(out_row + j) * n + out_column] = tile[tx, ty + j]
        else:
            y[(out_row + j) * n + out_column] = tile[tx, ty + j]


@workload
def copy(n: int, width: int = 1, block: int = 256) -> Launch:
    """Copy `n` floats, `width` (1, 2 or 4) a thread."""
    require_positive(n=n, block=block)
    require_choice("width", width, (1, 2, 4))
    x = centred(n)
    vectors, tail = divmod(n, width)
    launch = copy_kernel.launch(
        blocks_for(vectors + (tail > 0), block),
        block,
        args=(x, sim.zeros(n), vectors),
        constants={"width": width, "tail": tail},
    )
    params = {"n": n, "width": width, "block": block}
    return launch.with_(name="memory.copy", params=params, expected=lambda: {"y": x})


@workload
def grid_stride_copy(n: int, grid: int = 528, block: int = 256) -> Launch:
    """Copy `n` floats with a grid of fixed size."""
    require_positive(n=n, grid=grid, block=block)
    x = centred(n)
    launch = grid_stride_copy_kernel.launch(grid, block, args=(x, sim.zeros(n), n))
    params = {"n": n, "grid": grid, "block": block}
    return launch.with_(name="memory.grid_stride_copy", params=params, expected=lambda: {"y": x})


@workload
def strided(n: int, stride: int, write: bool = False, block: int = 256) -> Launch:
    """Read (or write) every `stride`-th float; the other side of the copy is unit stride."""
    require_positive(n=n, stride=stride, block=block)
    span = (n - 1) * stride + 1
    grid = blocks_for(n, block)
    params = {"n": n, "stride": stride, "write": write, "block": block}
    values = centred(n)
    wide = np.zeros(span, np.float32)
    wide[::stride] = values
    if write:
        launch = strided_write_kernel.launch(grid, block, args=(values, sim.zeros(span), n, stride))
        return launch.with_(name="memory.strided", params=params, expected=lambda: {"y": wide})
    launch = strided_read_kernel.launch(grid, block, args=(wide, sim.zeros(n), n, stride))
    return launch.with_(name="memory.strided", params=params, expected=lambda: {"y": values})


@workload
def offset(n: int, offset: int, block: int = 256) -> Launch:
    """Copy `n` floats that start `offset` floats into the source array."""
    require_positive(n=n, block=block)
    if offset < 0:
        raise ValueError(f"offset={offset}: must not be negative")
    x = centred(n + offset)
    launch = offset_kernel.launch(blocks_for(n, block), block, args=(x, sim.zeros(n), n, offset))
    params = {"n": n, "offset": offset, "block": block}
    return launch.with_(name="memory.offset", params=params, expected=lambda: {"y": x[offset:]})


@workload
def gather(n: int, block: int = 256) -> Launch:
    """Read `n` floats at uniformly random places of an array of `n`."""
    require_positive(n=n, block=block)
    x, index = centred(n), indices(n, n)
    launch = gather_kernel.launch(blocks_for(n, block), block, args=(index, x, sim.zeros(n), n))
    return launch.with_(name="memory.gather", params={"n": n, "block": block}, expected=lambda: {"y": x[index]})


@workload
def transpose(n: int, method: str = "tiled") -> Launch:
    """Transpose an `n` x `n` matrix of floats.

    `method`: `"naive"` writes a column at a time; `"tiled"` goes through a 32 x 32
    shared tile whose column reads hit one bank; `"padded"` adds a word a row, so they do not.
    """
    require_positive(n=n)
    require_choice("method", method, ("naive", "tiled", "padded"))
    x = centred(n * n)
    tiles = blocks_for(n, TILE)
    edges = n % TILE != 0
    grid, block, args = (tiles, tiles), (TILE, TILE_ROWS), (x, sim.zeros(n * n), n)
    if method == "naive":
        launch = transpose_naive_kernel.launch(grid, block, args=args, constants={"edges": edges})
    else:
        constants = {"padding": int(method == "padded"), "edges": edges}
        launch = transpose_tile_kernel.launch(grid, block, args=args, constants=constants)
    return launch.with_(
        name="memory.transpose",
        params={"n": n, "method": method},
        expected=lambda: {"y": x.reshape(n, n).T.ravel()},
    )
