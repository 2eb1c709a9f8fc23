"""`tailwave run FILE`: kernels of listings and CUDA C++, their arguments from words, one-line errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from sim.cli import app
from sim.cli.kernel_files import KernelOptions, arch_of, launch_of, parse_argument
from tests.cuda.extras import needs_cuda
from tests.sass.listings import COPY1, cuobjdump

SAXPY = """
__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i] + SHIFT;
}
template <int N> __global__ void fill(float* x) { x[threadIdx.x] = N; }
"""


def invoke(*words: str) -> tuple[int, str]:
    """Exit status, and everything printed, with its lines joined."""
    result = CliRunner().invoke(app, ["run", *words])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def listing(tmp_path: Path) -> str:
    (tmp_path / "kernels.sass").write_text(COPY1 + cuobjdump(["NOP"], name="nothing", arch="sm_90a"))
    return str(tmp_path / "kernels.sass")


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "saxpy.cu").write_text(SAXPY)
    return str(tmp_path / "saxpy.cu")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-3", -3),
        ("0x10", 16),
        ("1e6", 1e6),
        ("2.0f", np.float32(2)),
        ("7u", np.uint32(7)),
        ("7ull", np.uint64(7)),
        ("u8:255", np.uint8(255)),
        ("f64:0.5", np.float64(0.5)),
        ("f32:inf", np.float32(np.inf)),
        ("bool:true", np.bool_(True)),
        ("bf16:1.5", ml_dtypes.bfloat16(1.5)),
    ],
)
def test_numbers(text: str, value: Any) -> None:
    got = parse_argument(text, np.random.default_rng(0))
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("f32[3]", np.zeros(3, np.float32)),
        ("i32[2x3]=arange", np.arange(6, dtype=np.int32).reshape(2, 3)),
        ("f16[2,2]=ones", np.ones((2, 2), np.float16)),
        ("u8[4]=9", np.full(4, 9, np.uint8)),
        ("f64[4]=-0.5", np.full(4, -0.5)),
    ],
)
def test_arrays(text: str, right: Any) -> None:
    got = parse_argument(text, np.random.default_rng(0))
    np.testing.assert_array_equal(got, right)
    assert got.dtype == right.dtype


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "i8", "u64", "bool"])
def test_random_arrays_are_the_same_each_time(kind: str) -> None:
    first, again = (parse_argument(f"{kind}[50]=random", np.random.default_rng(0)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first.astype(float))) > 1


def test_an_array_of_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(5))
    np.testing.assert_array_equal(parse_argument(str(tmp_path / "x.npy"), np.random.default_rng(0)), np.arange(5))


@pytest.mark.parametrize(
    "text", ["x", "f99:5", "i8:128", "i32:0.5", "u32:-1", "f32[x]", "g32[8]", "i8[3]=300", "f32[2]=much"]
)
def test_words_that_are_no_arguments(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"^--arg "):
        parse_argument(text, np.random.default_rng(0))


def test_numbers_without_a_type_are_cs_where_the_kernel_does_not_say(listing: str) -> None:
    given = KernelOptions("nothing", "1", "32", ("5", "0.5", "true", "f32[4]"))
    launch = launch_of(listing, given, "h200")
    assert [p.dtype.name for p in launch.program.params] == ["int32", "float64", "bool", "float32"]


def test_a_kernel_is_launched_in_clusters(listing: str) -> None:
    given = KernelOptions("nothing", "4x4", "32", ("5", "0.5", "true", "f32[4]"), cluster="2x2")
    assert launch_of(listing, given, "h200").cluster == (2, 2, 1)
    with pytest.raises(typer.BadParameter, match=r"clusters of \(3, 1, 1\) blocks do not divide the grid"):
        launch_of(listing, replace(given, cluster="3"), "h200")


@pytest.mark.parametrize(("gpu", "arch"), [("h200", "sm_90a"), ("a100_sxm_40gb", "sm_80"), ("t4", "sm_75")])
def test_a_kernel_is_compiled_for_the_gpu(gpu: str, arch: str) -> None:
    assert arch_of(gpu) == arch


def test_a_listings_kernel_runs(listing: str, tmp_path: Path) -> None:
    saved = tmp_path / "copy.json"
    words = ("--kernel", "copy1", "--grid", "2x2", "--block", "64", "--gpu", "toy", "--json", str(saved))
    status, output = invoke(listing, *words, "--arg", "f32[300]=random", "--arg", "f32[300]", "--arg", "300")
    assert status == 0, output
    assert output.startswith("copy1 (2, 2, 1)x(64, 1, 1)")
    assert json.loads(saved.read_text())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--grid", "1", "--block", "32"), "has 2 kernels: copy1, nothing: say which, with --kernel"),
        (("--kernel", "copy2", "--grid", "1", "--block", "32"), "no kernel 'copy2'; the listing has copy1, nothing"),
        (("--kernel", "copy1", "--block", "32"), "say how to launch it, such as --grid 4096 --block 256"),
        (("--kernel", "copy1", "--grid", "1", "--block", "a"), "--block a: one to three integers"),
        (("--kernel", "copy1", "--grid", "1", "--block", "0"), "every dimension must be at least 1"),
        (("--kernel", "copy1", "--grid", "1", "--block", "32", "--arg", "1"), "takes 3 arguments, got 1"),
        (("--kernel", "copy1", "--grid", "1", "--block", "32", "-D", "N=3"), "-D, -I and --option are for CUDA C++"),
        (("n=5", "--kernel", "copy1"), "key=value and --check are for workloads"),
    ],
)
def test_bad_words_are_told(listing: str, words: tuple[str, ...], message: str) -> None:
    status, output = invoke(listing, *words)
    assert status == 2
    assert message in output
    assert "Verdict" not in output


def test_launch_options_are_not_for_workloads() -> None:
    status, output = invoke("memory.copy", "n=32", "--grid", "5")
    assert status == 2 and "launch options are for kernels" in output


def test_the_help_shows_an_example() -> None:
    assert "tailwave run kernel.cu --kernel saxpy --grid 4096 --block 256" in invoke("--help")[1]


@needs_cuda
def test_a_source_file_runs(source: str) -> None:
    words = ("--kernel", "saxpy", "--grid", "2", "--block", "64", "--gpu", "a100_sxm_40gb", "-D", "SHIFT=1")
    arguments = ("--arg", "100", "--arg", "2", "--arg", "f32[100]=random", "--arg", "f32[100]=ones")
    status, output = invoke(source, *words, *arguments)
    assert status == 0, output
    assert "y[i] = a * x[i] + y[i]" in output and "saxpy.cu" in output


@needs_cuda
def test_a_template_is_instantiated_by_its_name(source: str) -> None:
    given = KernelOptions("fill<7>", "1", "32", ("f32[32]",), options=("-DSHIFT=0",))
    launch = launch_of(source, given, "h200")
    assert launch.program.name == "_Z4fillILi7EEvPf" and launch.program.arch == "sm_90a"


@needs_cuda
def test_errors_of_the_compiler_are_shown(source: str) -> None:
    status, output = invoke(source, "--kernel", "saxpy", "--grid", "2", "--block", "64")
    assert status == 1
    assert "saxpy.cu does not compile: " in output and 'identifier "SHIFT" is undefined' in output
    assert invoke("no.cu", "--grid", "1", "--block", "1") == (2, "tailwave: no.cu: No such file or directory")
