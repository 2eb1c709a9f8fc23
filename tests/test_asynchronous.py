"""Wrong use of Hopper's asynchronous units ends a kernel with an error that says what, where and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim
from sim.errors import DeadlockError, KernelError, OutOfBoundsError
from sim.program_checks import ProgramError
from sim.trace import TraceError


@sim.kernel
def waits_for_ever(k: Any, x: Any) -> None:
    bars = k.mbarriers(2)
    with k.if_(k.thread_idx.x == 0):
        bars[1].init(3)
        k.fence_async()
    k.syncthreads()
    with k.if_(k.thread_idx.x < 2):
        bars[1].arrive()
    bars[1].wait(0)
    x[k.thread_idx.x] = 1.0


@sim.kernel
def arrives_too_often(k: Any, x: Any) -> None:
    bars = k.mbarriers(1)
    with k.if_(k.thread_idx.x == 0):
        bars[0].init(40)
        k.fence_async()
    k.syncthreads()
    bars[0].arrive()
    x[k.thread_idx.x] = 1.0


@sim.kernel
def copies(k: Any, m: Any, y: Any, *, place: int) -> None:
    bars = k.mbarriers(1)
    box = k.shared((8, 32), np.float32, align=1024)
    with k.if_(k.thread_idx.x == 0):
        bars[0].init(1)
        k.fence_async()
        bars[0].arrive_expect(m.box_bytes)
        k.tma_load(box, k.block_dim.x * place, m, (0, 0), bars[0])
    k.syncthreads()
    bars[0].wait(0)
    y[k.thread_idx.x] = box[0, k.thread_idx.x]


def test_a_phase_that_never_completes_is_named() -> None:
    with pytest.raises(DeadlockError) as raised:
        sim.simulate(waits_for_ever.launch(1, 32, (np.zeros(32, np.float32),)), gpu="h200")
    message = str(raised.value)
    assert "byte 8 of shared memory, block (0, 0, 0): 1 arrivals and 0 bytes lack; warp 0 waits at" in message
    assert "bars[1].wait(0)" in message


def test_more_arrivals_than_a_phase_expects() -> None:
    with pytest.raises(KernelError, match=r"more threads arrived at it than it was initialised for.*block \(0, 0, 0\)"):
        sim.simulate(arrives_too_often.launch(1, 64, (np.zeros(64, np.float32),)), gpu="h200")


def test_a_copy_past_the_end_of_shared_memory() -> None:
    box = sim.tensor_map(np.zeros((8, 32), np.float32), (8, 32))
    with pytest.raises(OutOfBoundsError, match="of shared memory, of which the block has.*k.tma_load"):
        sim.simulate(copies.launch(1, 32, (box, np.zeros(32, np.float32)), {"place": 8}), gpu="h200")


def test_a_tensor_map_that_points_outside_its_array() -> None:
    box = sim.tensor_map(np.zeros((4, 32), np.float32), (8, 32), shape=(8, 32))
    with pytest.raises(OutOfBoundsError, match="the box of 1024 bytes leaves the array that its tensor map"):
        sim.simulate(copies.launch(1, 32, (box, np.zeros(32, np.float32)), {"place": 0}), gpu="h200")


def test_a_gpu_without_the_unit_is_refused() -> None:
    box = sim.tensor_map(np.zeros((8, 32), np.float32), (8, 32))
    launch = copies.launch(1, 32, (box, np.zeros(32, np.float32)), {"place": 0})
    with pytest.raises(ProgramError, match=r"which a100_sxm_40gb does not have: its profile has no table \[mbarrier\]"):
        sim.simulate(launch, gpu="a100_sxm_40gb")


def test_a_kernel_of_these_units_has_no_trace() -> None:
    box = sim.tensor_map(np.zeros((8, 32), np.float32), (8, 32))
    with pytest.raises(TraceError, match="simulate the launch itself"):
        sim.record(copies.launch(1, 32, (box, np.zeros(32, np.float32)), {"place": 0}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"box": (8,)}, "give as many numbers"),
        ({"box": (512, 32)}, "must lie in 1..256"),
        ({"box": (8, 3)}, "no multiple of 16"),
        ({"box": (8, 64)}, "longer than the swizzle of 128"),
        ({"box": (8, 32), "swizzle": 100}, "use 128, 64 or 32 bytes, or 0"),
        ({"box": (8, 32), "strides": (4,)}, "pad the array's last dimension"),
    ],
)
def test_what_a_tensor_map_cannot_describe(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sim.tensor_map(np.zeros((8, 64), np.float32), **options)


@sim.kernel(registers=64)
def asks_for_too_many(k: Any, x: Any) -> None:
    with k.if_(k.warp_id < 4):
        k.set_max_registers(128)
    x[k.thread_idx.x] = 1.0


def test_registers_that_nobody_gives_back() -> None:
    with pytest.raises(DeadlockError, match=r"warp 0 of block \(0, 0, 0\) waits for 128 registers a thread.*has 64"):
        sim.simulate(asks_for_too_many.launch(1, 256, (sim.zeros(256),)))


@sim.kernel
def waits_for_copies(k: Any, x: Any, y: Any) -> None:
    bars, box = k.mbarriers(2), k.shared((2, 128), np.float32)
    t = k.thread_idx.x
    with k.if_(t == 0):
        for bar in bars:
            bar.init(64)
        k.fence_async()
    k.syncthreads()
    for half in range(2):
        k.async_copy(box, (half, 2 * t), x, 128 * (2 * k.block_idx.x + half) + 2 * t, bytes=8)
        bars[half].arrive_after_copies()
    for half in range(2):
        bars[half].wait(0)
        y[128 * (2 * k.block_idx.x + half) + t] = box[half, 127 - t]


def test_an_mbarrier_waits_for_copies() -> None:
    x = np.arange(4 * 256, dtype=np.float32)
    got = sim.simulate(waits_for_copies.launch(4, 64, (x, sim.zeros(len(x)))), gpu="h200").outputs["y"]
    right = np.zeros((8, 128), np.float32)
    right[:, :64] = x.reshape(8, 128)[:, :63:-1]
    assert (got.reshape(8, 128) == right).all()
