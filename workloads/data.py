"""What workloads share: their decorator, checks of their arguments, and input arrays.

The arrays are random, with fixed seeds, so that equal arguments give equal launches.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np
import numpy.typing as npt

from sim.launch import Launch

Arguments = ParamSpec("Arguments")


def workload(function: Callable[Arguments, Launch]) -> Callable[Arguments, Launch]:
    """Decorates a workload: its arguments must be of the types that it states, or `ValueError` names the first.

    NumPy's numbers become Python's, so that equal sizes make equal kernels: a kernel's argument has the width of its
    NumPy type, and with an int64 for a size all indices would be 64 bits wide.
    """
    signature = inspect.signature(function)
    kinds = typing.get_type_hints(function)

    @functools.wraps(function)
    def made(*args: Arguments.args, **named: Arguments.kwargs) -> Launch:
        bound = signature.bind(*args, **named)
        for name, value in bound.arguments.items():
            bound.arguments[name] = plain = value.item() if isinstance(value, np.generic) else value
            if not _is_of(plain, kinds[name]):
                raise ValueError(f"{name}={value!r}: must be {_words(kinds[name])}")
        return function(*bound.args, **bound.kwargs)

    return made


def _is_of(value: Any, kind: Any) -> bool:
    """Whether `value` is of an annotated type: a class, a union, or a tuple of so many of them (a list will do)."""
    if isinstance(kind, types.UnionType):
        return any(_is_of(value, part) for part in typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        parts = typing.get_args(kind)
        return isinstance(value, tuple | list) and len(value) == len(parts) and all(map(_is_of, value, parts))
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    return isinstance(value, kind)


def _words(kind: Any) -> str:
    """A type for a sentence."""
    if isinstance(kind, types.UnionType):
        return " or ".join(map(_words, typing.get_args(kind)))
    if typing.get_origin(kind) is tuple:
        return f"{len(typing.get_args(kind))} integers"
    return {int: "an integer", float: "a number", bool: "True or False", str: "a word"}.get(kind, "None")


def centred(size: int, seed: int = 7) -> npt.NDArray[np.float32]:
    """Uniform float32 in [-0.5, 0.5)."""
    return np.random.default_rng(seed).random(size, np.float32) - np.float32(0.5)


def standard_normal(size: int, seed: int = 7) -> npt.NDArray[np.float32]:
    """Normal float32 of mean 0 and deviation 1."""
    return np.random.default_rng(seed).standard_normal(size, np.float32)


def indices(size: int, below: int, seed: int = 3) -> npt.NDArray[np.int32]:
    """Uniform int32 in [0, below)."""
    return np.random.default_rng(seed).integers(0, below, size, np.int32)


def small_integers(size: int, seed: int = 7) -> npt.NDArray[np.float32]:
    """Whole float32 in -4..3: products and their sums are exact, so any order of summation gives the same bits."""
    return (np.random.default_rng(seed).integers(0, 8, size, np.uint8).astype(np.int8) - 4).astype(np.float32)


def blocks_for(size: int, block: int) -> int:
    """Blocks of `block` that cover `size`: the quotient, rounded up."""
    return -(-size // block)


def require_positive(**sizes: int) -> None:
    """Raise `ValueError` naming the first size that is not a positive integer."""
    for name, value in sizes.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}={value!r}: must be a positive integer")


def require_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise `ValueError` when `value` is none of `choices`."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: choose one of {', '.join(map(repr, choices))}")
