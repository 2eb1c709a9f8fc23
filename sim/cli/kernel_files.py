"""Kernels for `tailwave run` from files - CUDA C++, cubins, listings - with arguments from words."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import typer

from sim.launch import Launch, LaunchError, dim3
from sim.profile import load_profile
from sim.program import Program

SOURCES = (".cu", ".cuh", ".cpp", ".cc", ".cxx")
CUBINS = (".cubin",)
LISTINGS = (".sass", ".txt", ".gz")
SEED = 0  #: of the arrays of random numbers
RANDOM_INTEGERS = 128  #: below this: every integer type has them
TYPES: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64), "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "bool": np.dtype(np.bool_),
}  # fmt: skip
LITERALS = {"f": "f32", "u": "u32", "l": "i64", "ul": "u64", "ll": "i64", "ull": "u64"}  #: C's suffixes

_ARRAY = re.compile(r"(\w+)\[([\d\s,x]+)\](?:=(.*))?")
_TYPED = re.compile(r"([a-z]+\d*):(.+)")
_LITERAL = re.compile(r"(.*?[\d.])(f|u|l|ul|ll|ull)", re.IGNORECASE)


@dataclass(frozen=True)
class KernelOptions:
    """What the command line says about a kernel's launch."""

    kernel: str = ""
    grid: str = ""
    block: str = ""
    arguments: tuple[str, ...] = ()
    shared: int = 0
    arch: str = ""
    options: tuple[str, ...] = ()
    cluster: str = ""


def is_kernel_file(word: str) -> bool:
    """Whether a word names a file of kernels, not a workload."""
    return Path(word).suffix.lower() in SOURCES + CUBINS + LISTINGS


def launch_of(file: str, given: KernelOptions, gpu: str) -> Launch:
    """The launch that the command line asks for. Raises `typer.BadParameter` for words that say none."""
    if not given.grid or not given.block:
        raise typer.BadParameter(f"{file}: say how to launch it, such as --grid 4096 --block 256 or --grid 64x64")
    grid = dim3(parse_dimensions(given.grid, "--grid"), "grid")
    block = dim3(parse_dimensions(given.block, "--block"), "block")
    cluster = dim3(parse_dimensions(given.cluster, "--cluster"), "cluster") if given.cluster else None
    random = np.random.default_rng(SEED)
    arguments = [parse_argument(word, random) for word in given.arguments]
    program = find_program(file, given, gpu)
    try:
        fixed = program.cluster if cluster is None else cluster
        return Launch(program, grid, block, typed(program, arguments), given.shared, cluster=fixed)
    except LaunchError as error:
        raise typer.BadParameter(str(error)) from None


def find_program(file: str, given: KernelOptions, gpu: str) -> Program:
    """The kernel of that name, or the only one, of a file."""
    import sim

    suffix = Path(file).suffix.lower()
    if suffix in SOURCES:
        arch = given.arch or arch_of(gpu)
        names = (given.kernel,) if "<" in given.kernel else ()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kernels = sim.compile_cuda(file, arch, options=given.options, names=names)
        for warning in caught:
            typer.echo(str(warning.message), err=True)
    elif given.arch or given.options:
        raise typer.BadParameter(f"{file} is compiled already: --arch, -D, -I and --option are for CUDA C++")
    else:
        kernels = sim.load_cubin(file) if suffix in CUBINS else sim.load_sass(file)
    if not given.kernel and len(kernels) > 1:
        raise typer.BadParameter(f"{file} has {kernels!r}: say which, with --kernel".replace("<", "").replace(">", ""))
    try:
        return kernels[given.kernel or next(iter(kernels))]
    except KeyError as error:
        raise typer.BadParameter(f"{file}: {error.args[0]}") from None


def arch_of(gpu: str) -> str:
    """The architecture to compile for: sm_80, ...; sm_90a for Hopper, with the instructions that only it has."""
    capability = load_profile(gpu).gpu.compute_capability.replace(".", "")
    return f"sm_{capability}a" if capability == "90" else f"sm_{capability}"


def parse_dimensions(text: str, option: str) -> tuple[int, ...]:
    """`4096`, `64x64` or `64,64,2`."""
    parts = re.split(r"[x,]", text.replace(" ", ""))
    if not all(part.isdigit() for part in parts):
        raise typer.BadParameter(f"{option} {text}: one to three integers are needed, such as 4096 or 64x64")
    return tuple(int(part) for part in parts)


def parse_argument(text: str, random: np.random.Generator) -> Any:
    """A number (`5`, `2.0f`, `u64:7`), an array (`f32[1024]`, `i32[64x64]=arange`) or a .npy file's array.

    A number without a type is Python's: the kernel's parameter says its type. Raises
    `typer.BadParameter` for other words, `OSError` for a file that cannot be read.
    """
    if found := _ARRAY.fullmatch(text.strip()):
        kind, shape, fill = found.groups()
        return _array(text, _type(text, kind), parse_dimensions(shape, "--arg"), fill or "zeros", random)
    if text.endswith(".npy"):
        try:
            return np.load(text)
        except ValueError as error:
            raise typer.BadParameter(f"--arg {text}: {error}") from None
    if found := _TYPED.fullmatch(text):
        kind, number = found.groups()
        return _number(text, number, _type(text, kind))
    if (found := _LITERAL.fullmatch(text)) and not text.lower().startswith("0x"):
        number, suffix = found.groups()
        return _number(text, number, TYPES[LITERALS[suffix.lower()]])
    return _number(text, text, None)


def _type(text: str, name: str) -> np.dtype:
    if name not in TYPES:
        raise typer.BadParameter(f"--arg {text}: {name} is no type; types: {', '.join(TYPES)}")
    return TYPES[name]


def _number(text: str, number: str, dtype: np.dtype | None) -> Any:
    try:
        value: Any = {"true": True, "false": False}.get(number.lower())
        if value is None:
            value = float(number) if re.search(r"[.enEN]", number) and "0x" not in number else int(number, 0)
        if dtype is None:
            return value
        if dtype.kind in "iu" and (value != int(value) or not _fits(int(value), dtype)):
            raise ValueError
        return dtype.type(value)
    except (ValueError, OverflowError):
        of = f" of type {dtype}" if dtype is not None else ""
        raise typer.BadParameter(
            f"--arg {text}: {number!r} is no number{of}; write 5, 2.0f, u64:7, f32[1024], f32[64x64]=random or a.npy"
        ) from None


def _fits(value: int, dtype: np.dtype) -> bool:
    limits = np.iinfo(dtype)
    return int(limits.min) <= value <= int(limits.max)


def _array(
    text: str, dtype: np.dtype, shape: tuple[int, ...], fill: str, random: np.random.Generator
) -> np.ndarray[Any, Any]:
    if fill == "random":
        whole = dtype.kind in "iu"
        if dtype == np.bool_:
            return random.integers(0, 2, shape).astype(dtype)
        return random.integers(0, RANDOM_INTEGERS, shape).astype(dtype) if whole else random.random(shape).astype(dtype)
    if fill == "arange":
        return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    value = {"zeros": "0", "ones": "1"}.get(fill, fill)
    return np.full(shape, _number(text, value, dtype), dtype)


def typed(program: Program, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments with types where the kernel's name does not tell them: those of C's literals, int and double."""

    def known(k: int) -> bool:
        return not program.params_from_arguments and k < len(program.params) and program.params[k].kind != "raw"

    literal = {bool: np.bool_, int: np.int32, float: np.float64}
    try:
        return tuple(
            value if known(k) or type(value) not in literal else literal[type(value)](value)
            for k, value in enumerate(arguments)
        )
    except OverflowError as error:
        raise typer.BadParameter(f"{error}; give its type: i64:5, u64:5") from None
