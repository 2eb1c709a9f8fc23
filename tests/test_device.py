"""A device: its memory, the order of its kernels, and arguments and launches that it refuses."""

from __future__ import annotations

import gc
import math

import numpy as np
import pytest

import sim
from sim.builder import BuildError
from sim.device import Device
from sim.isa import Op, Space, TimingClass
from sim.launch import LaunchError
from sim.profile import load_profile
from sim.program import Imm, Instruction, Program, Reg
from sim.program_checks import ProgramError
from tests.core.programs import OUT, address, alu, control, index_of_thread, program
from tests.core.programs import memory as access
from workloads import memory


@sim.kernel
def scale(k, x, y, a, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[i] * a


@sim.kernel
def add_one(k, x, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        x[i] = x[i] + 1


@pytest.fixture
def device() -> Device:
    return Device("toy")


def increment(array, n=64):
    return add_one.launch(2, 32, args=(array, n))


# --- memory


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.uint8, np.int64, np.bool_])
def test_an_array_comes_back_as_it_went(device, dtype):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    array = device.array(values)
    assert (array.shape, array.ndim, array.size, array.dtype) == ((2, 3, 4), 3, 24, np.dtype(dtype))
    np.testing.assert_array_equal(array.numpy(), values)


def test_bfloat16_comes_back_as_it_went(device):
    import ml_dtypes

    values = np.arange(8).astype(ml_dtypes.bfloat16)
    assert (device.array(values).numpy() == values).all()


def test_fresh_memory_is_zero_and_set_repeats_as_numpy_does(device):
    array = device.empty((2, 3), np.int32)
    assert not array.numpy().any()
    array.set([1, 2, 3])
    assert array.numpy().tolist() == [[1, 2, 3], [1, 2, 3]]
    with pytest.raises(ValueError):
        array.set(np.zeros((4, 3)))


def test_an_array_that_was_read_is_a_copy(device):
    array = device.array(np.zeros(4, np.int32))
    array.numpy()[:] = 5
    assert not array.numpy().any()


def test_arrays_made_on_the_device_start_filled(device):
    assert device.array(sim.zeros(3)).numpy().tolist() == [0, 0, 0]
    assert device.array(sim.OutputArray((2,), np.dtype(np.int32), 7)).numpy().tolist() == [7, 7]


def test_memory_grows_and_keeps_what_it_holds(device):
    first = device.array(np.arange(10))
    device.array(np.ones(3_000_000, np.uint8))
    assert first.numpy().tolist() == list(range(10))


def test_arrays_lie_apart_and_at_whole_multiples_of_256_bytes(device):
    arrays = [device.empty(64, np.float32) for _ in range(3)]
    assert all(a.address % 256 == 0 for a in arrays)
    assert all(b.address > a.address + a.nbytes for a, b in zip(arrays, arrays[1:], strict=False))


@pytest.mark.parametrize("values", [np.array([object()]), np.array(["a"]), np.zeros(2, complex)])
def test_types_that_a_gpu_does_not_know_are_refused(device, values):
    with pytest.raises(LaunchError, match="cannot live on the device"):
        device.array(values)


@pytest.mark.parametrize("shape", [-1, (2, -3), (1.5,)])
def test_impossible_shapes_are_refused(device, shape):
    with pytest.raises(LaunchError, match="dimensions"):
        device.empty(shape)


def test_more_than_the_gpu_holds_is_out_of_memory(device):
    with pytest.raises(MemoryError, match="out of memory on toy.*cudaErrorMemoryAllocation"):
        device.empty(load_profile("toy").dram.capacity_bytes)


# --- kernels in order


def test_kernels_see_what_earlier_ones_left(device):
    array = device.array(np.zeros(64, np.float32))
    for _ in range(3):
        device.launch(increment(array))
    assert (array.numpy() == 3).all()


def test_the_decorated_kernel_runs_on_a_device(device):
    x, y = device.array(np.arange(64, dtype=np.float32)), device.empty(64)
    report = scale[2, 32].on(device)(x, y, 2.0, 64)
    assert (y.numpy() == 2 * np.arange(64)).all()
    assert report.launch.grid == (2, 1, 1)


def test_a_report_keeps_what_its_kernel_left(device):
    array = device.array(np.zeros(64, np.float32))
    first = device.launch(increment(array))
    second = device.launch(increment(array))
    array.set(9)
    assert first.outputs["x"].tolist() == [1] * 64
    assert second.outputs["x"].tolist() == [2] * 64
    assert array.numpy().tolist() == [9] * 64


def test_a_report_that_nobody_holds_keeps_nothing(device):
    array = device.array(np.zeros(64, np.float32))
    for _ in range(3):
        device.launch(increment(array))
    gc.collect()
    assert all(reader() is None for reader in array._readers)


def test_outputs_are_by_parameter_name(device):
    report = device.launch(scale.launch(1, 32, args=(np.ones(32, np.float32), sim.zeros(32), 3.0, 32)))
    assert list(report.outputs) == ["x", "y"] and len(report.outputs) == 2
    with pytest.raises(KeyError):
        report.outputs["a"]


def test_a_stream_runs_its_kernels_in_order(device):
    array = device.array(np.ones(64, np.float32))
    stream = device.stream()
    double = scale.launch(2, 32, args=(array, array, 2.0, 64))
    events = [stream.submit(launch) for launch in (increment(array), double, increment(array))]
    assert not any(event.processed for event in events)
    device.synchronize()
    assert (array.numpy() == 5).all()
    assert [event.value.launch.name for event in events] == ["add_one", "scale", "add_one"]


def test_streams_share_one_engine(device):
    """Kernels of two streams take as long as one after the other."""
    array = device.array(np.zeros(64, np.float32))
    device.launch(increment(array))
    alone = device.launch(increment(array)).cycles
    begin = device.env.now
    for stream in (device.stream(), device.stream()):
        for _ in range(2):
            stream.submit(increment(array))
    device.synchronize()
    assert (array.numpy() == 6).all()
    assert device.env.now - begin == pytest.approx(4 * alone, rel=0.02)


def test_a_launch_runs_what_other_streams_have_queued_before_it(device):
    array = device.array(np.zeros(64, np.float32))
    queued = device.stream().submit(increment(array))
    device.launch(scale.launch(2, 32, args=(array, array, 10.0, 64)))
    assert queued.processed
    assert (array.numpy() == 10).all()


def test_a_device_runs_more_than_one_profile_of_kernels(device):
    for launch in (memory.copy(100), memory.transpose(20), memory.copy(100)):
        launch.check(device.launch(launch))


# --- arguments and launches that a GPU would refuse

X, Y = np.ones(32, np.float32), sim.zeros(32)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((X, Y, 1.0), r"scale\(x, y, a, n\) takes 4 arguments, got 3"),
        ((X.astype(np.float64), Y, 1.0, 32), "argument x is float32, got float64"),
        ((X.reshape(4, 8), Y, 1.0, 32), "argument x has 1 dimensions, got 2"),
        ((3, Y, 1.0, 32), "argument x is an array, got int"),
        ((X, Y, X, 32), "argument a is a scalar, got an array"),
        ((X, Y, 1.0, 2**31), "argument n=2147483648 does not fit int32"),
        ((X, Y, 1.0, 1.5), "argument n=1.5 does not fit int32"),
        ((X, Y, 1e39, 32), r"argument a=1e\+39 does not fit float32"),
        ((X, Y, 10**400, 32), "does not fit float32"),
        ((X, Y, "a", 32), "argument a='a' is not a number; float32 is needed"),
        ((X, Y, 1.0, None), "argument n=None is not a number"),
        ((Device("toy").array(X), Y, 1.0, 32), "argument x lives on another device"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(device, args, message):
    program = scale.build_for((X, Y, 1.0, 32))
    with pytest.raises(LaunchError, match=message):
        device.launch(program, 1, 32, args)


def test_arguments_that_fit_are_taken_as_they_come(device):
    program = scale.build_for((X, Y, 1.0, 32))
    for a, n in ((np.float64(2), np.int64(32)), (2, np.array(32)), (True, 32.0)):
        device.launch(program, 1, 32, (X, Y, a, n))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": 0}, "grid=.*at least 1.*cudaErrorInvalidConfiguration"),
        ({"grid": (1, 2, 3, 4)}, "grid must be one to three integers"),
        ({"grid": (1, 70000)}, "y is at most 65535"),
        ({"block": 0}, "block=.*at least 1"),
        ({"block": 1025}, "block=.*x is at most 1024"),
        ({"block": (64, 32)}, "2048 threads a block: at most 1024"),
        ({"block": (1, 1, 65)}, "z is at most 64"),
        ({"shared_bytes": 16385}, "16385 bytes of shared memory a block: at most 16384"),
        ({"shared_bytes": -4}, "shared_bytes=-4"),
        ({"shared_bytes": 1.5}, "shared_bytes=1.5: must be an integer"),
        ({"grid": b"2"}, "grid must be one to three integers, not b.2."),
        ({"block": 32.0}, "block must be one to three integers, not 32.0"),
        ({"block": "32"}, "block must be one to three integers, not '32'"),
        ({"block": True}, "block must be one to three integers, not True"),
        ({"scheduler": "fifo"}, "scheduler='fifo': use 'gto'"),
        ({"cycle_limit": 0}, "cycle_limit=0"),
        ({"cycle_limit": math.nan}, "cycle_limit=nan: an integer"),
    ],
)
def test_launches_that_cuda_refuses_are_refused_in_its_words(device, changes, message):
    program = scale.build_for((X, Y, 1.0, 32))
    with pytest.raises(LaunchError, match=message):
        device.launch(program, **{"grid": 1, "block": 32, "args": (X, Y, 1.0, 32), **changes})


def test_a_refused_launch_leaves_caches_memory_and_clock_alone(device):
    array = device.array(np.zeros(64, np.float32))
    device.launch(increment(array))
    warm = device.launch(increment(array)).cycles
    before = repr(device)
    with pytest.raises(LaunchError):
        device.launch(scale.launch(1, 32, args=(X, Y, 1e39, 32)))
    assert repr(device).startswith(before.rpartition(":")[0])
    assert device.launch(increment(array)).cycles == warm


def test_what_is_no_launch_is_refused(device):
    with pytest.raises(LaunchError, match=r"<kernel scale\(.*cannot be launched: give a Launch, such as kernel.launch"):
        device.launch(scale)
    with pytest.raises(LaunchError, match="scale: a launch needs grid and block"):
        device.launch(scale.build_for((X, Y, 1.0, 32)))
    with pytest.raises(LaunchError, match="a Launch has its own grid"):
        device.launch(memory.copy(8), 1, 32)
    with pytest.raises(TypeError, match="colour"):
        device.launch(memory.copy(8), colour="red")
    with pytest.raises(ValueError, match="threads=0"):
        Device("toy", threads=0)
    with pytest.raises(LaunchError, match="threads='2': an integer"):
        Device("toy", threads="2")
    with pytest.raises(BuildError, match=r"on\('toy'\): give a device"):
        scale[1, 32].on("toy")


@pytest.mark.parametrize("shape", ["3", 1.5, -1, (2, None), True])
def test_what_is_no_shape_is_refused(device, shape):
    for make in (sim.zeros, device.empty):
        with pytest.raises(LaunchError, match="an array's dimensions are integers, none negative"):
            make(shape)


@pytest.mark.parametrize("dtype", ["U5", object, np.complex64, np.longdouble, ">f4", "M8[s]"])
def test_a_type_that_the_device_does_not_have_is_refused(device, dtype):
    with pytest.raises(LaunchError, match="cannot live on the device"):
        device.empty(3, dtype)


def test_an_array_in_another_byte_order_is_converted(device):
    assert device.array(np.arange(3, dtype=">f4")).numpy().tolist() == [0.0, 1.0, 2.0]


def test_what_a_prompt_shows_is_a_line(device):
    launch = memory.copy(1 << 10)
    report = device.launch(launch)
    trace = sim.record(launch, gpu="toy")
    for shown in (launch, launch.program, trace, report, report.outputs, device, device.profile):
        assert len(repr(shown)) < 120 and "0x" not in repr(shown)


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        ([], "no instructions"),
        ([Instruction(Op.NOP, TimingClass.CONTROL, "NOP")], "the last instruction must be EXIT, BRA or RET"),
        ([Instruction(Op.BRA, TimingClass.BRANCH, "BRA", y=7)], r"instruction 0 \(BRA\): its target lies outside"),
        ([Instruction(Op.BAR, TimingClass.BARRIER, "BAR", x=7)], "a barrier is waited at, arrived at or reduces"),
        ([Instruction(Op.KILL, TimingClass.BRANCH, "KILL")], "the simulator does not execute it"),
    ],
)
def test_programs_that_cannot_run_are_refused_at_their_instruction(device, instructions, message):
    with pytest.raises(ProgramError, match=message):
        device.launch(Program("odd", instructions, 8), 1, 32)


# --- atomics and local memory


def test_atomics_add_up(device):
    @sim.kernel
    def tally(k, x, counts, total):
        i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
        k.atomic_add(counts, x[i], 1)
        k.atomic_add(total, 0, x[i].astype(np.float32) * 0.1)

    values = np.random.default_rng(3).integers(0, 7, 512, dtype=np.int32)
    args = (values, sim.zeros(7, np.int32), sim.zeros(1))
    report = device.launch(tally.launch(8, 64, args=args))
    assert (report.outputs["counts"] == np.bincount(values, minlength=7)).all()
    assert report.outputs["total"][0] == pytest.approx(0.1 * values.sum(), rel=1e-5)


def test_an_atomic_returns_what_was_there(device):
    @sim.kernel
    def ticket(k, counter, y):
        i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
        y[i] = k.atomic_add(counter, 0, 1)

    report = device.launch(ticket.launch(8, 64, args=(sim.zeros(1, np.int32), sim.zeros(512, np.int32))))
    assert sorted(report.outputs["y"].tolist()) == list(range(512))


@pytest.mark.parametrize("turns", range(0, 60, 4))
def test_a_store_after_a_barrier_comes_after_the_blocks_atomics(device, turns):
    """Atomics are performed after the step in which they issue, stores as they issue."""

    @sim.kernel
    def reset(k, x, y):
        t = k.thread_idx.x
        v = k.var(0)
        for _ in k.range_(turns):
            v.set(v + x[t])
        k.atomic_add(y, (t + v) & 7, 1)
        k.syncthreads()
        with k.if_(t < 4):
            y[t] = -5

    report = device.launch(reset.launch(1, 128, args=(np.zeros(128, np.int32), sim.zeros(8, np.int32))))
    assert report.outputs["y"].tolist() == [-5] * 4 + [16] * 4


def test_threads_of_resident_blocks_have_local_memory_of_their_own(device):
    body = [
        *index_of_thread(),
        alu(Op.MOV, 7, Imm(8)),
        access(Op.ST, Space.LOCAL, 7, 2),
        control(Op.BAR),
        access(Op.LD, Space.LOCAL, 7, 6),
        alu(Op.IADD3, 6, Reg(6), Imm(1)),
        address(4, 2, OUT),
        access(Op.ST, Space.GLOBAL, 4, 6),
        control(Op.EXIT),
    ]
    own = program("own", body)
    own.local_bytes = 16
    used = []
    for _ in range(3):
        args = (np.zeros(1, np.uint32), sim.zeros(640, np.uint32), 0)
        report = device.launch(own, 10, 64, args)
        assert (report.outputs["out"] == np.arange(1, 641)).all()
        used.append(device.empty(1).offset)
    assert used[2] - used[1] < 10_000  # local memory is taken once
