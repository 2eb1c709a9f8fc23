"""Kernels as objects: building, configuring, launching, and what their programs keep."""

from __future__ import annotations

import time

import numpy as np
import pytest

import sim
from sim.builder import ArgSpec, build
from sim.isa import Op, SpecialRegister, TimingClass
from tests.builder.run import run


@sim.kernel
def scaled(k, x, y, n, *, factor=2.0):
    """Doc."""
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[i] * factor


X, Y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)


def test_a_kernel_keeps_its_function_s_name_and_doc():
    assert scaled.__name__ == "scaled" and scaled.__doc__ == "Doc."
    assert repr(scaled) == "<kernel scaled(x, y, n)>"


def test_programs_are_kept_by_argument_types_and_constants():
    first = scaled.build_for((X, Y, 64))
    assert scaled.build_for((Y, X, 7)) is first
    assert scaled.build_for((X, Y, 64), {"factor": 2.0}) is first
    assert scaled.build_for((X, Y, 64), {"factor": 3.0}) is not first
    assert scaled.build_for((X.astype(np.float64), Y, 64)) is not first
    specs = [ArgSpec("array", "float32"), ArgSpec("array", "float32"), ArgSpec("scalar", "int32", 0)]
    assert build(scaled, specs) is first


def test_every_instruction_knows_its_source_line():
    program = scaled.build_for((X, Y, 64))
    (store,) = [i for i in program.instructions if i.op is Op.ST]
    line = program.source[store.line]
    assert line.text == "y[i] = x[i] * factor"
    assert line.file.endswith("test_kernels.py")
    unknown = [i.text for i in program.instructions if i.line < 0]
    assert unknown == ["LDC", "EXIT"]  # the stack pointer and the end


def test_a_launch_carries_program_grid_and_arguments():
    launch = scaled.launch(1, 64, args=(X, Y, 64), constants={"factor": 5.0}, name="five times")
    assert launch.program is scaled.build_for((X, Y, 64), {"factor": 5.0})
    assert (launch.grid, launch.block, launch.name) == ((1, 1, 1), (64, 1, 1), "five times")


def test_a_configured_kernel_runs_on_a_device():
    calls = []

    class Device:
        def launch(self, program, grid, block, args, shared_bytes):
            calls.append((program.name, grid, block, args, shared_bytes))
            return "report"

    assert scaled[2, 32, 128].on(Device())(X, Y, 64) == "report"
    assert calls == [("scaled", 2, 32, (X, Y, 64), 128)]


def test_parameters_lie_where_the_hardware_has_them():
    program = scaled.build_for((X, Y, 64))
    assert [(p.name, p.offset, p.kind) for p in program.params] == [
        ("x", 0, "array"), ("y", 8, "array"), ("n", 16, "scalar"),
    ]  # fmt: skip
    assert program.param_base == 0x210 and program.param_bytes == 20


def test_timing_classes_are_those_of_the_pipes():
    program = scaled.build_for((X, Y, 64))
    classes = {i.text: i.cls for i in program.instructions}
    want = {
        "IMAD": TimingClass.IMAD, "IMAD.WIDE": TimingClass.IMAD_WIDE, "LDG.E": TimingClass.LOAD_STORE,
        "FADD": TimingClass.FP32, "ULDC": TimingClass.UNIFORM, "EXIT": TimingClass.BRANCH,
        "LDC.64": TimingClass.LDC, "ISETP.LT.AND": TimingClass.SETP,
    }  # fmt: skip
    assert {t: classes[t] for t in want if t in classes} == {t: c for t, c in want.items() if t in classes}
    assert "FMUL" in classes and classes["FMUL"] is TimingClass.FP32
    special = {SpecialRegister(i.x): i.cls for i in program.instructions if i.op is Op.S2R}
    assert special == {SpecialRegister.TID_X: TimingClass.TID, SpecialRegister.CTAID_X: TimingClass.S2R}


@sim.kernel
def with_bools(k, x, flags, out, wanted):
    i = k.thread_idx.x
    flags[i] = x[i] > 3
    k.syncthreads()
    out[i] = k.select(flags[31 - i] & (wanted != 0), 1, 0)


def test_bool_arrays_and_arguments():
    x, flags, out = np.arange(32, dtype=np.int32), np.zeros(32, bool), np.zeros(32, np.int32)
    run(with_bools, (x, flags, out, True))
    np.testing.assert_array_equal(flags, x > 3)
    np.testing.assert_array_equal(out, (x > 3)[::-1])


@sim.kernel
def helper_lines(k, x, out):
    out[k.thread_idx.x] = doubled(x[k.thread_idx.x])


def doubled(v):
    return v + v


def test_helpers_lines_are_their_own():
    program = helper_lines.build_for((X, Y))
    (add,) = [i for i in program.instructions if i.text == "FADD"]
    assert program.source[add.line].text == "return v + v"


@sim.kernel
def many_values(k, x, n, *, live):
    values = [k.var(x[j]) for j in range(live)]
    for _ in k.range_(n, unroll=1):
        for j in range(live):
            values[j].set(values[j] + values[(j + 1) % live] * 3)
    for j in range(live):
        with k.if_(k.thread_idx.x == j % 32):
            x[j] = values[j]


@pytest.mark.parametrize("live", [200, 300])
def test_values_beyond_255_registers_go_to_local_memory(live):
    x = np.arange(live, dtype=np.int32)
    want = x.astype(np.int64)
    for _ in range(3):
        for j in range(live):
            want[j] += want[(j + 1) % live] * 3
    program = run(many_values, (x, 3), live=live)
    np.testing.assert_array_equal(x, want.astype(np.int32))
    assert (program.local_bytes > 0) == (live > 255)
    assert program.registers <= 255


@pytest.mark.parametrize("tile", [(256, 128, 32)])
def test_a_tensor_tile_is_built_within_seconds(tile):
    from workloads import tensor

    start = time.process_time()
    launch = tensor.gemm(300, tile=tile)
    assert launch.program.registers <= 255
    assert time.process_time() - start < 5
