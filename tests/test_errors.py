"""Kernels that go wrong: what the error says, and that the device is whole again afterwards."""

from __future__ import annotations

import contextlib
import re
import signal
import traceback

import numpy as np
import pytest

import sim
from sim import engine as engines
from sim.device import Device
from sim.errors import CycleLimitError, DeadlockError, KernelError, MisalignedError, OutOfBoundsError
from workloads import memory


@sim.kernel
def forever(k, y):
    i = k.var(0)
    with k.while_(lambda: i >= 0):
        i.set(i & 255)
    y[0] = i


@sim.kernel
def add_one(k, x, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        x[i] = x[i] + 1


def increment(array, n=64):
    return add_one.launch(2, 32, args=(array, n))


@pytest.fixture
def device() -> Device:
    return Device("toy")


# --- kernels that go wrong


def failing(kernel, *args, block=64, grid=2, gpu="toy", **options) -> KernelError:
    with pytest.raises(KernelError) as caught:
        Device(gpu).launch(kernel.launch(grid, block, args=args), **options)
    return caught.value


def test_a_load_past_the_end_names_everything():
    @sim.kernel
    def past(k, x, y):
        i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
        y[i] = x[i + 64]

    problem = failing(past, np.zeros(128, np.float32), sim.zeros(128))
    assert isinstance(problem, OutOfBoundsError)
    text = str(problem)
    assert "LDG" in text and "of 4 bytes" in text and "at x[128]" in text and "x has shape (128,)" in text
    assert "kernel past" in text and "test_errors.py" in text and "`y[i] = x[i + 64]`" in text
    assert "block (1, 0, 0), thread (0, 0, 0)" in text


def test_a_store_before_the_start_names_the_array_that_it_missed():
    @sim.kernel
    def before(k, x, y):
        y[k.thread_idx.x - 3] = x[k.thread_idx.x]

    text = str(failing(before, np.zeros(64, np.float32), sim.zeros(64)))
    assert "STG" in text and "at y[-3]" in text and "thread (0, 0, 0)" in text


def test_an_index_beyond_a_row_of_a_matrix_is_named_from_its_start():
    @sim.kernel
    def rows(k, x, y):
        y[k.thread_idx.x] = x[k.thread_idx.x, 0]

    assert "element 64 of x" in str(failing(rows, np.zeros((16, 4), np.float32), sim.zeros(64)))


def test_the_thread_of_a_block_of_three_dimensions_is_named():
    @sim.kernel
    def corner(k, y):
        t = k.thread_idx
        with k.if_((t.x == 3) & (t.y == 1) & (t.z == 2) & (k.block_idx.y == 1)):
            y[t.x + 1000] = 1.0

    problem = failing(corner, sim.zeros(8), block=(4, 2, 3), grid=(2, 2))
    assert "block (0, 1, 0), thread (3, 1, 2)" in str(problem)


def test_an_access_that_is_not_aligned_says_so():
    @sim.kernel
    def vectors(k, x, y):
        i = k.thread_idx.x
        a = x.load(4 * i + 1, width=4)
        y[i] = a[0]

    problem = failing(vectors, np.zeros(400, np.float32), sim.zeros(64))
    assert isinstance(problem, MisalignedError)
    assert "at x[1]" in str(problem) and "not a multiple of its 16 bytes" in str(problem)
    assert "use a narrower access" in str(problem)


def test_shared_memory_out_of_bounds_names_the_byte():
    @sim.kernel
    def beyond(k, y):
        s = k.shared(16, np.float32)
        s[k.thread_idx.x] = 1.0
        y[0] = s[0]

    text = str(failing(beyond, sim.zeros(1)))
    assert "at byte 64 of shared memory, of which the block has 64" in text and "thread (16, 0, 0)" in text


def test_an_atomic_out_of_bounds_is_caught():
    @sim.kernel
    def count(k, y):
        k.atomic_add(y, k.thread_idx.x, 1)

    assert "at y[10]" in str(failing(count, sim.zeros(10, np.int32)))


def test_memory_that_was_given_back_or_never_taken_is_out_of_bounds(device):
    @sim.kernel
    def far(k, y, i):
        y[i] = 1.0

    for distance in (1 << 28, -(1 << 28)):
        with pytest.raises(OutOfBoundsError):
            device.launch(far.launch(1, 1, args=(sim.zeros(4), distance)))


def test_a_barrier_that_some_threads_never_reach_is_a_deadlock():
    @sim.kernel
    def half(k, y):
        i = k.thread_idx.x
        with k.if_((i & 31) < 8):
            k.syncthreads()
            y[i] = 1.0
        y[i] = y[i] + 2.0

    problem = failing(half, sim.zeros(64), grid=1)
    assert isinstance(problem, DeadlockError)
    text = str(problem)
    assert "kernel half hangs" in text and "every thread of a block" in text
    assert "`k.syncthreads()` (block's barrier)" in text
    assert "block (0, 0, 0) warp 0 lanes 0x000000ff" in text


def test_a_kernel_that_never_ends_says_where_its_warps_are():
    problem = failing(forever, sim.zeros(1, np.int32), cycle_limit=20_000)
    assert isinstance(problem, CycleLimitError)
    text = str(problem)
    assert "kernel forever did not end within 20,000 cycles" in text and "cycle_limit=" in text
    assert "test_errors.py" in text and re.search(r"block \(1, 0, 0\) warp [01]", text)


def test_errors_of_the_lowest_sm_win_whatever_the_threads():
    @sim.kernel
    def all_wrong(k, y):
        y[k.block_idx.x + 100] = 1.0

    texts = set()
    for threads in (1, 2):
        with pytest.raises(OutOfBoundsError) as caught:
            Device("toy", threads=threads).launch(all_wrong.launch(2, 1, args=(sim.zeros(1),)))
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_an_error_has_a_short_traceback_and_no_other_behind_it(device):
    @sim.kernel
    def bad(k, y):
        y[k.thread_idx.x] = 1.0

    with pytest.raises(OutOfBoundsError) as caught:
        device.launch(bad.launch(1, 32, args=(sim.zeros(1),)))
    problem = caught.value
    assert problem.__cause__ is None and problem.__context__ is None
    names = [frame.name for frame in traceback.extract_tb(problem.__traceback__)]
    assert len(names) <= 3 and "step" not in names


# --- after an error


@sim.kernel
def half_way(k, y, limit):
    """Threads beyond `limit` go wrong; the first block has stored by then."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    x = k.var(0.0)
    with k.if_(k.block_idx.x > 0):
        for _ in k.range_(200, unroll=1):
            x += 1.0
        y[i + limit] = x
    y[i] = 1.0


def test_after_an_error_the_device_says_so_and_runs_the_next_kernel(device):
    kept = device.array(np.zeros(64, np.float32))
    y = device.empty(64)
    with pytest.raises(OutOfBoundsError) as caught:
        device.launch(half_way.launch(2, 32, args=(y, 1000)))
    assert device.last_error is caught.value
    assert "ready; its last kernel failed: STG" in repr(device)
    assert y.numpy().tolist() == [1.0] * 32 + [0.0] * 32  # what was stored before stays
    device.launch(increment(kept))
    assert (kept.numpy() == 1).all()
    assert device.last_error is None and repr(device).endswith(": ready>")


def test_after_an_error_a_kernel_takes_as_long_as_on_a_fresh_device(device):
    with pytest.raises(OutOfBoundsError):
        device.launch(half_way.launch(2, 32, args=(sim.zeros(64), 1000)))
    again = device.launch(increment(np.zeros(64, np.float32)))
    fresh = Device("toy").launch(increment(np.zeros(64, np.float32)))
    assert again.cycles == pytest.approx(fresh.cycles, abs=60)  # refresh is elsewhere
    assert again["smsp__inst_executed.sum"] == fresh["smsp__inst_executed.sum"]


def test_a_failed_launch_gives_its_arrays_back(device):
    before = device.empty(1).address
    with pytest.raises(OutOfBoundsError):
        device.launch(half_way.launch(2, 32, args=(np.ones(64, np.float32), 1000)))
    after = device.empty(64)
    assert after.address == before + 512
    assert not after.numpy().any()


@pytest.mark.parametrize("options", [{}, {"cycle_limit": 5000}])
def test_every_kind_of_error_leaves_a_device_that_works(device, options):
    for _ in range(3):
        with pytest.raises(KernelError):
            if options:
                device.launch(forever.launch(1, 64, args=(sim.zeros(1, np.int32),)), **options)
            else:
                device.launch(half_way.launch(2, 32, args=(sim.zeros(64), 1000)))
        launch = memory.copy(100)
        launch.check(device.launch(launch))


def test_what_is_queued_behind_a_failure_runs_with_the_next_call(device):
    array = device.array(np.zeros(64, np.float32))
    stream = device.stream()
    stream.submit(increment(array))
    failed = stream.submit(half_way.launch(2, 32, args=(sim.zeros(64), 1000)))
    stream.submit(increment(array))
    with pytest.raises(OutOfBoundsError):
        device.synchronize()
    assert (array.numpy() == 1).all() and isinstance(failed.value, OutOfBoundsError)
    device.synchronize()
    assert (array.numpy() == 2).all()


# --- Ctrl-C


@pytest.fixture
def interrupt(monkeypatch):
    """Ctrl-C in the fifth time step of the next kernel."""
    steps = 0
    step = engines.Engine.step

    def counting(self, t0, t1):
        nonlocal steps
        steps += 1
        if steps == 5:
            with contextlib.suppress(BaseException):  # as compiled code does with an error in the Python that it calls
                signal.raise_signal(signal.SIGINT)
        return step(self, t0, t1)

    monkeypatch.setattr(engines.Engine, "step", counting)


def test_ctrl_c_leaves_a_device_that_works(device, interrupt):
    y = device.empty(64)
    used = device.empty(1).address
    with pytest.raises(KeyboardInterrupt, match="stopped at cycle .* in half_way; queued launches are dropped"):
        device.launch(half_way.launch(2, 32, args=(y, 0)))
    assert device.empty(1).address == used + 512
    launch = memory.copy(100)
    launch.check(device.launch(launch))
    assert (device.launch(half_way.launch(2, 32, args=(y, 0))).outputs["y"] == 1).all()


def test_ctrl_c_drops_what_is_queued(device, interrupt):
    array = device.array(np.zeros(64, np.float32))
    stream = device.stream()
    stream.submit(half_way.launch(2, 32, args=(sim.zeros(64), 0)))
    stream.submit(increment(array))
    device.stream().submit(increment(array))
    with pytest.raises(KeyboardInterrupt):
        device.synchronize()
    device.synchronize()
    assert not array.numpy().any()
    stream.submit(increment(array))
    device.synchronize()
    assert (array.numpy() == 1).all()


def test_ctrl_c_waits_for_the_threads_that_step_sms(interrupt):
    device = Device("toy", threads=2)
    with pytest.raises(KeyboardInterrupt):
        device.launch(half_way.launch(4, 32, args=(sim.zeros(128), 0)))
    launch = memory.copy(100)
    launch.check(device.launch(launch))


def test_ctrl_c_at_once_where_the_core_does_not_run(device, monkeypatch):
    compiled = device.heap.mark  # called before the first step, where Python's handler is the one to act

    def stop():
        signal.raise_signal(signal.SIGINT)
        return compiled()

    with monkeypatch.context() as patch:
        patch.setattr(device.heap, "mark", stop)
        with pytest.raises(KeyboardInterrupt):
            device.launch(memory.copy(100))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    device.launch(memory.copy(100))


def test_another_handler_of_ctrl_c_is_left_alone(device, interrupt):
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append("asked"))
    try:
        device.launch(half_way.launch(2, 32, args=(device.empty(64), 0)))
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == ["asked"]
