"""`compile_cuda`: kernels compiled from source compute what NumPy does, know their lines, and fail with clear words."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.cuda import CompileError
from sim.sass import Kernels
from tests.cuda.extras import needs_cuda

SOURCE = Path(__file__).with_name("kernels.cu")
ARCHES = ("sm_75", "sm_80", "sm_90a")
RNG = np.random.default_rng(5)


@cache
def kernels(arch: str) -> Kernels:
    return sim.compile_cuda(SOURCE, arch, names=("multiply<16>", "multiply<32>"))


def outputs(arch: str, kernel: str, grid: Any, block: Any, *args: Any, shared_bytes: int = 0) -> dict[int, Any]:
    launch = sim.Launch(kernels(arch)[kernel], grid, block, args, shared_bytes)
    gpu = {"sm_75": "t4", "sm_80": "a100_sxm_40gb", "sm_90a": "h200"}[arch]
    found = sim.simulate(launch, gpu=gpu).outputs
    return {int(name.removeprefix("arg")): array for name, array in found.items()}


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape, dtype=np.float32)


@needs_cuda
@pytest.mark.parametrize("arch", ARCHES)
class TestResults:
    def test_scalars_and_pointers(self, arch: str) -> None:
        x, y = floats(1000), floats(1000)
        got = outputs(arch, "saxpy", 4, 256, 1000, 2.5, x, y)[3]
        np.testing.assert_allclose(got, np.float32(2.5) * x + y, rtol=1e-6, atol=1e-6)

    def test_a_plain_name_and_constants(self, arch: str) -> None:
        x = floats(300)
        got = outputs(arch, "smooth", 3, 128, x, sim.zeros(300), np.int32(300))[1]
        np.testing.assert_allclose(got[1:-1], np.convolve(x, [0.25, 0.5, 0.25], "valid"), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("tile", [16, 32])
    def test_a_template_by_its_expression(self, arch: str, tile: int) -> None:
        a, b = floats(64, 64), floats(64, 64)
        blocks = (64 // tile, 64 // tile)
        got = outputs(arch, f"multiply<{tile}>", blocks, (tile, tile), a, b, sim.zeros((64, 64)), 64)[2]
        np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-4)
        assert kernels(arch)[f"multiply<{tile}>"].shared_static_bytes == 2 * 4 * tile * tile

    def test_shared_and_global_atomics(self, arch: str) -> None:
        data = RNG.integers(0, 256, 5000).astype(np.uint8)
        got = outputs(arch, "histogram", 3, 128, data, sim.zeros(256, np.uint32), 5000, shared_bytes=1024)[1]
        np.testing.assert_array_equal(got, np.bincount(data, minlength=256))

    def test_cooperative_groups(self, arch: str) -> None:
        x = floats(3000)
        got = outputs(arch, "total", 4, 128, x, sim.zeros(1), 3000)[1]
        np.testing.assert_allclose(got, [x.sum(dtype=float)], rtol=1e-4, atol=1e-3)

    def test_half_precision(self, arch: str) -> None:
        x = floats(64).astype(np.float16)
        got = outputs(arch, "halves", 1, 32, x, sim.zeros(64, np.float16))[1]
        np.testing.assert_array_equal(got, (x.astype(float) ** 2 + x).astype(np.float16))

    def test_a_struct_and_doubles(self, arch: str) -> None:
        x = np.arange(-2.0, 30.0)
        line = np.void(np.array([(1.5, -3)], np.dtype([("slope", "f8"), ("offset", "i4")], align=True)).tobytes())
        got = outputs(arch, "on_line", 1, 32, line, x, sim.zeros(32, np.float64))[2]
        right = np.where(x < 0, -np.inf, 1.5 * np.sqrt(np.abs(x)) - 3)
        np.testing.assert_allclose(got, right, rtol=1e-15)

    def test_a_variable(self, arch: str) -> None:
        got = outputs(arch, "ticket", 2, 64, sim.zeros(128, np.uint32))[0]
        assert sorted(got) == list(range(7, 135))

    def test_tensor_cores(self, arch: str) -> None:
        a, b = (floats(16, 16).astype(np.float16) for _ in range(2))
        got = outputs(arch, "tensor", 1, 32, a, b, sim.zeros((16, 16)))[2]
        np.testing.assert_allclose(got, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-3, atol=1e-3)


TEXT = """
__global__ void strided(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[i];
    float b = x[i * STEP % n];
    y[i] = a + b;
}
"""


@needs_cuda
def test_a_report_shows_the_lines_of_the_text() -> None:
    program = sim.compile_cuda(TEXT, options=("-DSTEP=32",), filename="strided.cu")["strided"]
    report = sim.simulate(sim.Launch(program, 4, 256, (floats(1024), sim.zeros(1024), 1024)))
    lines = report.lines().set_index("line")
    assert set(lines["file"]) == {"strided.cu"}
    assert lines.loc[5, "source"] == "float b = x[i * STEP % n];"
    assert lines.loc[4, "sectors_per_request"] == 4
    assert lines.loc[5, "sectors_per_request"] == 32
    assert "strided.cu" in str(report)


@needs_cuda
def test_a_file_includes_what_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd.cuh").write_text("__device__ int odd(int* x, int i) {\n    int v = x[i];\n    return v % 7;\n}\n")
    (tmp_path / "k.cu").write_text(
        '#include "odd.cuh"\n__global__ void k(int* x) {\n    x[threadIdx.x] = odd(x, 3);\n}\n'
    )
    monkeypatch.chdir(tmp_path)
    program = sim.compile_cuda("k.cu")["k"]
    places = {(Path(line.file).name, line.text.strip()) for line in program.source}
    assert ("odd.cuh", "int v = x[i];") in places
    assert {line.file for line in program.source if line.file.endswith(".cu")} == {"k.cu"}


@needs_cuda
def test_warnings_of_the_compiler_are_warnings() -> None:
    with pytest.warns(UserWarning, match='variable "unused" was declared but never referenced'):
        sim.compile_cuda("__global__ void k(int* x) { int unused; *x = 1; }")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.compile_cuda("__global__ void k(int* x) { int unused; *x = 1; }", options=("-w",))


@needs_cuda
def test_what_nvcc_always_includes_is_there() -> None:
    program = sim.compile_cuda("__global__ void k(float* x) { x[threadIdx.x] = -INFINITY; }", filename="k.cu")["k"]
    report = sim.simulate(sim.Launch(program, 1, 32, (sim.zeros(32),)))
    assert (report.outputs["arg0"] == -np.inf).all()
    assert {line.file for line in program.source} == {"k.cu"}


@needs_cuda
@pytest.mark.parametrize(
    ("source", "options", "problem"),
    [
        ("__global__ void k(int* x) { *x = y; }", {}, r'kernel\.cu\(1\): error: identifier "y" is undefined'),
        ("__device__ int f() { return 1; }", {}, "kernel.cu has no kernel: no __global__ function, or only templates"),
        ("#include <vector>\n", {}, "(?s)vector.*keep host code and its headers inside #ifndef __CUDACC_RTC__"),
        ("int main() { return 0; }", {}, "(?s)execution space.*#ifndef __CUDACC_RTC__"),
        ("__global__ void k() {}", {"arch": "sm_70"}, "kernel.cu: arch='sm_70' is not of Turing to Hopper: sm_75,"),
        ("__global__ void k() {}", {"arch": "hopper"}, "arch='hopper'"),
        ("__global__ void k() {}", {"options": ["--nonsense"]}, "(?s)does not compile.*nonsense"),
        ("template <int N> __global__ void k() {}", {"names": ["j<3>"]}, '(?s)does not compile.*"j" is undefined'),
    ],
)
def test_what_does_not_compile(source: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(CompileError, match=problem):
        sim.compile_cuda(source, **options)


@needs_cuda
def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.cu"):
        sim.compile_cuda("nothing.cu")
