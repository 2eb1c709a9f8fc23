"""Tiny kernels on the GPU for lessons, as digests of what they reported and left, with and without Numba.

As a program it prints them as JSON; with the argument `hide-numba`, Numba cannot be imported.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

if sys.argv[1:] == ["hide-numba"]:
    sys.modules["numba"] = None  # type: ignore[assignment]

import numpy as np

import sim
from sim.trace import record
from workloads import divergence, matmul, memory, rows, shared


@sim.kernel
def exchange(k: Any, x: Any, y: Any) -> None:
    """Shuffles, votes, atomics, local control flow and a wait of the warp."""
    i = k.thread_idx.x
    s = k.shared(64, np.float32)
    s[i] = x[i]
    with k.if_(i < 20):
        k.atomic_add(s, i & 7, x[i])
        k.syncwarp(0xFFFFF)
    k.syncthreads()
    v = k.shfl_xor(s[i], 5) * 0.5
    k.atomic_add(y, k.popc(k.ballot(v > 1.0)).astype(np.int32) & 15, v)


@sim.kernel
def neighbours(k: Any, x: Any, y: Any, total: Any) -> None:
    """Two blocks of a cluster: a multicast, arrivals at the other's mbarrier, its shared memory, a reduction by TMA."""
    i, other = k.thread_idx.x, k.cluster_rank ^ 1
    bars = k.mbarriers(1)
    mine, both = k.shared(32, np.float32), k.shared(32, np.float32)
    with k.if_(i == 0):
        bars[0].init(2)
        k.fence_async()
    k.cluster_sync()
    with k.if_(i == 0):
        bars[0].arrive_expect(128)
        with k.if_(k.cluster_rank == 0):
            k.bulk_load(both, 0, x, 32 * (k.block_idx.x // 2), 128, bars[0], blocks=3)
        k.remote(mine, other)[0] = 2.0
        k.threadfence()
        bars[0].remote(other).arrive()
    bars[0].wait(0)
    mine[i] = mine[0] + both[i]
    k.fence_async()
    k.cluster_sync()
    y[32 * k.block_idx.x + i] = k.remote(mine, other)[i] + k.atomic_add(k.remote(both, other), i, 1.0)
    with k.if_(i == 0):
        k.bulk_reduce(total, 0, mine, 0, 128)
        k.tma_commit()
        k.tma_wait()
    k.cluster_sync()


def kernels() -> dict[str, Any]:
    """The launches, by name."""
    x = np.linspace(-2, 3, 64).astype(np.float32)
    return {
        "copy": memory.copy(70, width=2, block=64),
        "transpose": memory.transpose(9, "tiled"),
        "tiled": matmul.tiled(9, tile=4),
        "switch": divergence.switch(32, 3, iters=2),
        "histogram": shared.histogram(60, 5, grid=2),
        "softmax": rows.softmax(1, 40, block=32),
        "exchange": exchange.launch(2, 64, args=(x, sim.zeros(16))),
        "neighbours": neighbours.launch(4, 32, args=(x, sim.zeros(128), sim.zeros(32)), cluster=2),
    }


def digests() -> dict[str, list[Any]]:
    """By kernel: cycles, digest of the report's JSON, digests of the arrays that it left."""
    found = {}
    for name, launch in kernels().items():
        report = sim.simulate(launch, gpu="toy")
        arrays = [hashlib.sha256(a.tobytes()).hexdigest() for a in report.outputs.values()]
        found[name] = [report.cycles, hashlib.sha256(report.to_json().encode()).hexdigest(), *arrays]
    trace = record(kernels()["switch"], gpu="toy")
    found["replay"] = [hashlib.sha256(sim.simulate(trace, gpu="toy", threads=2).to_json().encode()).hexdigest()]
    return found


if __name__ == "__main__":
    print(json.dumps(digests()))
