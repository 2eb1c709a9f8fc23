"""Divergence: warps whose lanes take different ways, and pay for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import sim
from sim.launch import Launch
from workloads.data import blocks_for, indices, require_positive, workload

BLOCK = 256
GROW, SHRINK, STEP = 1.0001, 0.9999, 0.5  #: v = v * factor +- step, the work of every path
SWITCH_FACTOR_STEP = 1e-4  #: path w multiplies by 1 + w * this
MAX_WAYS = 32


@sim.kernel
def lane_if_kernel(k: Any, y: Any, n: Any, lane: Any, iters: Any) -> None:
    """Lanes below `lane` take one loop, the others another."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    v = k.var(i.astype(np.float32))
    with k.if_((k.thread_idx.x & 31) < lane):
        for _ in k.range_(iters):
            v.set(v * GROW + STEP)
    with k.else_():
        for _ in k.range_(iters):
            v.set(v * SHRINK - STEP)
    with k.if_(i < n):
        y[i] = v


def _switch(k: Any, way: Any, low: int, high: int, case: Any) -> None:
    """`switch (way)` over the cases low..high-1 as a compiler lays it out: a tree of comparisons."""
    if high - low == 1:
        case(low)
        return
    middle = (low + high) // 2
    with k.if_(way < middle):
        _switch(k, way, low, middle, case)
    with k.else_():
        _switch(k, way, middle, high, case)


@sim.kernel
def switch_kernel(k: Any, y: Any, n: Any, ways: Any, iters: Any) -> None:
    """Lane l takes case l % ways of a 32-way switch; each case is its own loop."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    v = k.var(i.astype(np.float32))

    def case(w: int) -> None:
        for _ in k.range_(iters):
            v.set(v * (1.0 + w * SWITCH_FACTOR_STEP) + STEP)

    _switch(k, (k.thread_idx.x & 31) % ways, 0, MAX_WAYS, case)
    with k.if_(i < n):
        y[i] = v


@sim.kernel
def per_warp_kernel(k: Any, y: Any, n: Any, iters: Any) -> None:
    """Odd warps take one loop, even warps the other: no warp diverges."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    v = k.var(i.astype(np.float32))
    with k.if_(((k.thread_idx.x >> 5) & 1) != 0):
        for _ in k.range_(iters):
            v.set(v * GROW + STEP)
    with k.else_():
        for _ in k.range_(iters):
            v.set(v * SHRINK - STEP)
    with k.if_(i < n):
        y[i] = v


@sim.kernel
def trip_counts_kernel(k: Any, trips: Any, y: Any, n: Any) -> None:
    """Each thread loops as often as its entry of `trips` says; a warp as long as its longest lane."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        v = k.var(i.astype(np.float32))
        for _ in k.range_(trips[i]):
            v.set(v * GROW + STEP)
        y[i] = v


@sim.kernel
def lecture_kernel(k: Any, y: Any, n: Any) -> None:
    """`if (threadIdx.x < 4) { A; B } else { X; Y } Z`, a store a letter so that each stays where it is written."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        with k.if_(k.thread_idx.x < 4):
            y[i * 3] = 1.0  # A
            y[i * 3 + 1] = 2.0  # B
        with k.else_():
            y[i * 3] = 3.0  # X
            y[i * 3 + 1] = 4.0  # Y
        y[i * 3 + 2] = 5.0  # Z


def _iterate(v: np.ndarray, factor: Any, step: float, count: int) -> np.ndarray:
    """`count` fused multiply-adds, each rounded once to float32."""
    factor = np.asarray(factor, np.float32).astype(np.float64)
    for _ in range(count):
        v = (v.astype(np.float64) * factor + step).astype(np.float32)
    return v


@workload
def lane_if(n: int, k: int, iters: int = 256) -> Launch:
    """`n` threads; in each warp, lanes below `k` take one loop of `iters` steps and the rest another."""
    require_positive(n=n, iters=iters)
    if not 0 <= k <= 32:
        raise ValueError(f"k={k}: a warp has lanes 0 to 31, so 0 <= k <= 32")

    def right() -> dict[str, np.ndarray]:
        v = np.arange(n, dtype=np.float32)
        low = np.arange(n) % BLOCK % 32 < k
        v[low] = _iterate(v[low], GROW, STEP, iters)
        v[~low] = _iterate(v[~low], SHRINK, -STEP, iters)
        return {"y": v}

    launch = lane_if_kernel.launch(blocks_for(n, BLOCK), BLOCK, args=(sim.zeros(n), n, k, iters))
    params = {"n": n, "k": k, "iters": iters}
    return launch.with_(name="divergence.lane_if", params=params, expected=right, flops=2.0 * n * iters, rtol=1e-4)


@workload
def switch(n: int, ways: int, iters: int = 64) -> Launch:
    """`n` threads; lane l takes case l % `ways` of a switch with a loop of `iters` steps a case."""
    require_positive(n=n, ways=ways, iters=iters)
    if ways > MAX_WAYS:
        raise ValueError(f"ways={ways}: the switch has {MAX_WAYS} cases, so 1 <= ways <= {MAX_WAYS}")

    def right() -> dict[str, np.ndarray]:
        way = np.arange(n) % BLOCK % 32 % ways
        return {"y": _iterate(np.arange(n, dtype=np.float32), 1.0 + way * SWITCH_FACTOR_STEP, STEP, iters)}

    launch = switch_kernel.launch(blocks_for(n, BLOCK), BLOCK, args=(sim.zeros(n), n, np.uint32(ways), iters))
    params = {"n": n, "ways": ways, "iters": iters}
    return launch.with_(name="divergence.switch", params=params, expected=right, flops=2.0 * n * iters, rtol=1e-4)


@workload
def per_warp(n: int, iters: int = 256) -> Launch:
    """`n` threads; whole warps take one loop or the other."""
    require_positive(n=n, iters=iters)

    def right() -> dict[str, np.ndarray]:
        v = np.arange(n, dtype=np.float32)
        odd = np.arange(n) % BLOCK // 32 % 2 == 1
        v[odd] = _iterate(v[odd], GROW, STEP, iters)
        v[~odd] = _iterate(v[~odd], SHRINK, -STEP, iters)
        return {"y": v}

    launch = per_warp_kernel.launch(blocks_for(n, BLOCK), BLOCK, args=(sim.zeros(n), n, iters))
    params = {"n": n, "iters": iters}
    return launch.with_(name="divergence.per_warp", params=params, expected=right, flops=2.0 * n * iters, rtol=1e-4)


@workload
def trip_counts(n: int, below: int = 256) -> Launch:
    """`n` threads that loop a uniformly random number of times below `below`."""
    require_positive(n=n, below=below)
    trips = indices(n, below, seed=5)

    def right() -> dict[str, np.ndarray]:
        v = np.arange(n, dtype=np.float32)
        for t in range(below):
            left = trips > t
            v[left] = _iterate(v[left], GROW, STEP, 1)
        return {"y": v}

    launch = trip_counts_kernel.launch(blocks_for(n, BLOCK), BLOCK, args=(trips, sim.zeros(n), n))
    params = {"n": n, "below": below}
    flops = 2.0 * float(trips.sum())
    return launch.with_(name="divergence.trip_counts", params=params, expected=right, flops=flops, rtol=1e-4)


@workload
def lecture(n: int = 32) -> Launch:
    """The lecture's `if (threadIdx.x < 4) { A; B } else { X; Y } Z` on `n` threads."""
    require_positive(n=n)

    def right() -> dict[str, np.ndarray]:
        low = np.arange(n) % BLOCK < 4
        first, second = np.where(low, 1.0, 3.0), np.where(low, 2.0, 4.0)
        return {"y": np.stack([first, second, np.full(n, 5.0)], 1).astype(np.float32).ravel()}

    launch = lecture_kernel.launch(blocks_for(n, BLOCK), min(BLOCK, n), args=(sim.zeros(3 * n), n))
    return launch.with_(name="divergence.lecture", params={"n": n}, expected=right)
