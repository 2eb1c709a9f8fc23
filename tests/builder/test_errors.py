"""Is every mistake in a kernel named, with its line and what to do?"""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.builder import ArgSpec, BuildError

X = np.zeros(64, np.float32)
M = np.zeros((8, 8), np.float32)


def line_of(function, marker="# here"):
    """`file:N:` of the line of a function that ends in the marker."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [first + n for n, line in enumerate(lines) if line.rstrip().endswith(marker)]
    return f"{Path(inspect.getfile(function)).name}:{at}:"


def refuse(body, args=(X,), message="", **constants):
    """Build `body` as a kernel; it must fail at its marked line with this message."""
    with pytest.raises(BuildError, match=message) as caught:
        sim.kernel(body).build_for(args, constants)
    if "# here" in inspect.getsource(body):
        assert line_of(body) in str(caught.value)


def test_python_if_on_a_traced_value():
    def body(k, x):
        if x[0] > 1:  # here
            x[1] = 0

    refuse(body, message=r"k\.if_")


def test_and_on_conditions():
    def body(k, x):
        i = k.thread_idx.x
        with k.if_(i > 1 and i < 5):  # here
            x[i] = 0

    refuse(body, message="& | ~")


def test_python_range_of_a_traced_value():
    def body(k, x):
        for i in range(k.thread_idx.x):  # here
            x[i] = 0

    refuse(body, message=r"k\.range_")


@pytest.mark.parametrize("convert", [float, int, iter])
def test_conversion_to_python_numbers(convert):
    def body(k, x, *, convert):
        convert(x[0])  # here

    refuse(body, message="only known when it runs", convert=convert)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (0, "a local array needs a constant shape of positive integers, not 0"),
        ((1 << 17) + 1, "local arrays of 524292 bytes; a thread can have 524288"),
    ],
)
def test_a_local_array_of_no_size_or_too_large(shape, message):
    def body(k, x, *, shape):
        k.local(shape)  # here

    refuse(body, message=message, shape=shape)


def test_an_atomic_on_a_local_array():
    def body(k, x):
        k.atomic_add(k.local(2, np.int32), 0, 1)  # here

    refuse(body, message="atomic_add on a local array, which no other thread sees")


def test_wrong_number_of_indices():
    def body(k, x):
        x[0, 1] = 2.0  # here

    refuse(body, message="x has 1 dimension, but 2 indices are given")

    def other(k, m):
        m[k.thread_idx.x] = 0.0  # here

    refuse(other, (M,), message="m has 2 dimensions, but 1 index is")


def test_index_of_a_number():
    def body(k, x, n):
        x[0] = n[0]  # here

    refuse(body, (X, 4), message="a number, which has no elements; what is indexed must be an array")

    def other(k, x, n):
        n[0] = x[0]  # here

    refuse(other, (X, 4), message="what is indexed must be an array")


def test_float_index():
    def body(k, x):
        x[k.thread_idx.x / 2] = 0.0  # here

    refuse(body, message="indexed with a float32")


def test_slices():
    def body(k, x):
        x[0:4] = 1.0  # here

    refuse(body, message="cannot be sliced")


def test_shared_arrays_of_traced_shape():
    def body(k, x, n):
        k.shared((n, 4))  # here

    refuse(body, (X, 4), message="constant shape")


def test_else_without_if():
    def body(k, x):
        with k.else_():  # here
            x[0] = 1.0

    refuse(body, message=r"without a k\.if_")


def test_else_that_does_not_follow_its_if():
    def body(k, x):
        with k.if_(k.thread_idx.x > 1):
            x[0] = 1.0
        x[1] = 2.0
        with k.else_():  # here
            x[0] = 1.0

    refuse(body, message="must directly follow")


def test_values_from_a_closed_block():
    def body(k, x):
        with k.if_(k.thread_idx.x > 1):
            v = x[0] + 1
        x[1] = v  # here

    refuse(body, message=r"closed.*k\.var")


def test_unsupported_dtypes():
    def body(k, x):
        x[0] = x[1].astype(np.complex64)  # here

    refuse(body, message="complex64")
    with pytest.raises(BuildError, match="argument z: dtype complex128"):
        ArgSpec.of(np.zeros(3, complex), "argument z")


def test_constants_that_do_not_fit():
    def body(k, x):
        x[k.thread_idx.x + (1 << 40)] = 0.0  # here

    refuse(body, message="does not fit int32")


def test_arguments_that_are_no_arrays_or_numbers():
    def body(k, x):
        x[0] = 1.0

    with pytest.raises(BuildError, match="x is a str"):
        sim.kernel(body).build_for(("no",))


def test_wrong_argument_count():
    def body(k, x, n):
        x[n] = 1.0

    with pytest.raises(BuildError, match=r"takes 2 arguments \(x, n\), not 1"):
        sim.kernel(body).build_for((X,))


def test_constants_by_name():
    def body(k, x, *, tile, pad=0):
        x[tile + pad] = 1.0

    kernel = sim.kernel(body)
    with pytest.raises(BuildError, match="needs a value for tile="):
        kernel.build_for((X,))
    with pytest.raises(BuildError, match="has no constant tiles; it has tile, pad"):
        kernel.build_for((X,), {"tile": 1, "tiles": 2})


def test_calling_a_kernel_without_a_grid():
    def body(k, x):
        x[0] = 1.0

    kernel = sim.kernel(body)
    with pytest.raises(BuildError, match="needs a grid and a block"):
        kernel(X)
    with pytest.raises(BuildError, match="needs a device"):
        kernel[1, 32](X)


def test_kernels_without_a_thread_view():
    with pytest.raises(BuildError, match="first parameter"):
        sim.kernel(lambda: None)


def test_source_that_is_not_available():
    scope: dict = {}
    exec("def made(k, x):\n    x[0] = 1.0\n", scope)
    with pytest.raises(BuildError, match="source of kernel made is not available"):
        sim.kernel(scope["made"])


def test_ldmatrix_of_global_memory():
    def body(k, x):
        k.ldmatrix(x, 0)  # here

    refuse(body, message="ldmatrix reads a shared array")


@pytest.mark.parametrize(
    ("shape", "message"), [("m8n8k4", "has no shape"), ("m16n8k8", "fragment a has 4 registers, not 2")]
)
def test_tensor_products_that_do_not_exist(shape, message):
    def body(k, x, *, shape):
        k.mma((x[0],) * 4, (x[0],) * 2, (0.0,) * 4, shape=shape, dtype="float16")  # here

    refuse(body, message=message, shape=shape)


def test_async_copies_of_odd_sizes():
    def body(k, x):
        k.async_copy(k.shared(64), 0, x, 0, bytes=12)  # here

    refuse(body, message="4, 8 or 16 bytes, not 12")


def test_atomics_that_do_not_exist():
    def body(k, x):
        k.atomic_max(x, 0, 1.0)  # here

    refuse(body, message="atomic_max on float32")


def test_vector_loads_of_odd_widths():
    def body(k, x):
        x.load(0, width=3)  # here

    refuse(body, message="3 elements of float32 are 12 bytes")


# --- asynchronous units
MAP = sim.tensor_map(np.zeros((64, 64), np.float16), (64, 64))


def test_sums_of_a_wrong_size_or_type():
    def body(k, x):
        k.wgmma_sums(100)  # here

    refuse(body, message="multiple of 8 up to 256")

    def other(k, x):
        k.wgmma_sums(64, np.float64)  # here

    refuse(other, message="sums are float32, float16 or int32")


def test_operands_that_do_not_go_together():
    def body(k, x):
        a = k.shared((64, 64), np.float16, align=1024)
        b = k.shared((64, 128), np.int8, align=1024)
        k.wgmma(k.wgmma_sums(64), k.smem_matrix(a), k.smem_matrix(b))  # here

    refuse(body, message="does not multiply float16 by int8")

    def sums(k, x):
        b = k.shared((64, 128), np.int8, align=1024)
        k.wgmma(k.wgmma_sums(64), k.smem_matrix(b), k.smem_matrix(b))  # here

    refuse(sums, message="of int8 adds to int32 sums, not float32")

    def fragment(k, x):
        a = k.shared((64, 64), np.float16, align=1024)
        k.wgmma(k.wgmma_sums(64), (1, 2), k.smem_matrix(a))  # here

    refuse(fragment, message="four 32-bit registers")


def test_matrices_that_no_descriptor_describes():
    def aligned(k, x):
        k.shared(4)
        k.smem_matrix(k.shared((64, 64), np.float16))  # here

    refuse(aligned, message="begins at byte 16, no multiple of 1024: make it with align=1024")

    def turned(k, x):
        k.smem_matrix(k.shared((64, 128), np.int8, align=1024), major="mn")  # here

    refuse(turned, message="int8 must lie along k")

    def plain(k, x):
        k.smem_matrix(k.shared(4096, np.float16, align=128), swizzle=0)  # here

    refuse(plain, message="needs leading= and stride=")

    def beyond(k, x):
        k.smem_matrix(k.shared(4096, np.float16, align=1024)).step(4)  # here

    refuse(beyond, message="beyond the 128 bytes of a row")

    def double(k, x):
        k.smem_matrix(k.shared((64, 16), np.float64, align=1024))  # here

    refuse(double, message="wgmma does not take float64")


def test_copies_of_what_cannot_be_copied():
    def no_map(k, x):
        k.tma_load(k.shared((64, 64), np.float16, align=1024), 0, x, (0, 0), k.mbarriers(1)[0])  # here

    refuse(no_map, message=r"sim.tensor_map\(array, box=...\), not Array")

    def coordinates(k, m):
        k.tma_load(k.shared((64, 64), np.float16, align=1024), 0, m, (0,), k.mbarriers(1)[0])  # here

    refuse(coordinates, (MAP,), message="of m needs 2 coordinates, innermost last, not 1")

    def barrier(k, m):
        k.tma_load(k.shared((64, 64), np.float16, align=1024), 0, m, (0, 0), k.mbarriers(1))  # here

    refuse(barrier, (MAP,), message="needs an mbarrier, such as bars")

    def room(k, m):
        k.tma_load(k.shared((2, 32, 64), np.float16, align=1024), 1, m, (0, 0), k.mbarriers(1)[0])  # here

    refuse(room, (MAP,), message="tma_load of 8192 bytes at byte 4096 of a shared array of 8192")

    def alignment(k, m):
        k.tma_store(m, (0, 0), k.shared((65, 64), np.float16, align=1024), (1, 0))  # here

    refuse(alignment, (MAP,), message="byte 128 of the shared array is no multiple of 1024")

    def size(k, x):
        k.bulk_store(x, 0, k.shared(64), 0, 24)  # here

    refuse(size, message="multiple of 16 bytes")


def test_barriers_that_are_not_there():
    def mbarrier(k, x):
        k.mbarriers(4)[4].arrive()  # here

    refuse(mbarrier, message="mbarrier 4 of 4")

    def arrivals(k, x):
        k.mbarriers(1)[0].init(0)  # here

    refuse(arrivals, message="counts 1 to 1048575 arrivals a phase")

    def number(k, x):
        k.barrier(16, 64)  # here

    refuse(number, message="a block has barriers 0 to 15")

    def threads(k, x):
        k.barrier_arrive(1, 40)  # here

    refuse(threads, message="whole warps")

    def late(k, x):
        k.shared_dynamic()
        k.mbarriers(1)  # here

    refuse(late, message=r"before k\.shared_dynamic")


def test_registers_that_are_too_few():
    def unknown(k, x):
        k.set_max_registers(40)  # here

    refuse(unknown, message=r"@sim\.kernel\(registers=168\)")

    def odd(k, x):
        k.set_max_registers(44)  # here

    refuse(odd, message="multiple of 8 from 24 to 256")

    def many(k, x):
        t = k.thread_idx.x
        k.set_max_registers(24)  # here
        kept = [x[t + 32 * j] for j in range(40)]
        k.syncthreads()
        for value in kept:
            x[t] = value
            k.threadfence()

    with pytest.raises(BuildError, match=r"after set_max_registers\(24\) needs [34]\d registers") as caught:
        sim.kernel(registers=128)(many).build_for((np.zeros(2000, np.float32),))
    assert line_of(many) in str(caught.value)
    with pytest.raises(BuildError, match="a thread has 16 to 255"):
        sim.kernel(registers=300)(many).build_for((X,))


def test_elements_of_eight_bits_that_only_tensor_cores_read():
    def body(k, x):
        k.shared(64, "float8_e4m3fn")[0] = 1.0  # here

    refuse(body, message="for tensor cores only")

    def converted(k, x):
        x[0] = x[1].astype("float8_e5m2")  # here

    refuse(converted, message="conversion to float8_e5m2 is not available")
