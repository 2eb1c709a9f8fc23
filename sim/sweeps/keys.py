"""Keys of points: what a finished point depends on, as one digest that is the same in every process and session.

A key covers the workload and the sources that it comes from, the parameters with their
types, the profile's values, the metrics asked for and this package's own sources. So a
stored point is used again only where simulating it again would give the same row.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import inspect
import json
import os
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Set
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import numpy as np

import sim
from sim.profile import Profile
from sim.sweeps.errors import SweepError

_ANNOTATIONS = (inspect.Signature, types.UnionType, types.GenericAlias)
AFTER_A_RESULT = ("cli", "plot")  #: parts of this package that come after a row is made


def digest(value: Any) -> str:
    """Digest of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def encode(value: Any) -> Any:
    """A value with its type as JSON can hold it: `1`, `1.0`, `True` and `"1"` differ.

    Raises `SweepError` for a value whose content cannot be told, such as an open file.
    """
    kind = type(value).__name__
    if value is None or type(value) in (bool, int, str):
        return [kind, value]
    if type(value) is float:
        return [kind, value.hex()]
    if isinstance(value, Enum):
        return ["enum", name_of(type(value)), value.name]
    if isinstance(value, bytes):
        return [kind, value.hex()]
    if isinstance(value, PurePath):
        return ["path", os.fspath(value)]
    if isinstance(value, _ANNOTATIONS) or type(value).__module__ == "typing":  # what decorators keep of functions
        return [kind, str(value)]
    if isinstance(value, np.dtype):
        return ["dtype", value.name]
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return ["array", value.dtype.name, list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, list | tuple):
        return [name_of(type(value)), [encode(part) for part in value]]
    if isinstance(value, Mapping):
        return ["mapping", sorted(([encode(key), encode(part)] for key, part in value.items()), key=json.dumps)]
    if isinstance(value, Set):
        return ["set", sorted((encode(part) for part in value), key=json.dumps)]
    if isinstance(value, Profile):
        return ["profile", describe(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return ["dataclass", name_of(type(value)), parts]
    if callable(value):
        return ["code", identity(value)]
    raise SweepError(f"{value!r:.60}: a stored point cannot be told from others by a {name_of(type(value))}")


def identity(function: Any) -> Any:
    """What tells a function or class from every other one, as JSON can hold it: its code, what it is bound to, sources.

    Raises `SweepError` where it comes from no file, as in a notebook.
    """
    if isinstance(function, functools.partial):
        return ["partial", identity(function.func), encode(function.args), encode(function.keywords)]
    if inspect.ismethod(function):
        return ["method", identity(function.__func__), encode(function.__self__)]
    if inspect.isbuiltin(function) or (inspect.isclass(function) and function.__module__ == "builtins"):
        return ["builtin", name_of(function), sys.version_info[:2]]
    if not inspect.isfunction(function) and not inspect.isclass(function):
        raise SweepError(f"{function!r:.60}: stored points are for functions; give a function instead")
    parts: list[Any] = [name_of(function), sources(function)]
    if inspect.isfunction(function):
        code = function.__code__
        parts += [code.co_firstlineno, hashlib.sha256(code.co_code).hexdigest()]
        parts += [encode(function.__defaults__), encode(function.__kwdefaults__)]
        parts += [encode(cell.cell_contents) for cell in function.__closure__ or ()]
    return parts


def name_of(thing: Any) -> str:
    """Module and qualified name."""
    return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', '?')}"


def sources(function: Any) -> str:
    """Digest of the files that a function or class comes from: its package, or its file and what that imports there."""
    module = sys.modules.get(function.__module__)
    name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None)
    if not file or not Path(file).is_file():
        raise SweepError(
            f"{name_of(function)} comes from no file, so a stored point of it could be of another version: "
            "put it in a module, or give store=None"
        )
    top = sys.modules.get(name.partition(".")[0])
    if top is not None and hasattr(top, "__path__") and top.__file__:
        return _digest_of_files(Path(top.__file__).parent)
    return _digest_of_files(Path(file).parent, tuple(sorted(_with_imports(Path(file), set()))))


def _with_imports(file: Path, found: set[Path]) -> set[Path]:
    """A source file, and those of its folder that it imports, directly or through others."""
    if file in found or not file.is_file():
        return found
    found.add(file)
    if file.suffix != ".py":
        return found
    for node in ast.walk(ast.parse(file.read_bytes())):
        named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            named = [node.module]
        for name in {name.partition(".")[0] for name in named}:
            _with_imports(file.with_name(f"{name}.py"), found)
            for part in sorted(file.with_name(name).rglob("*.py")):
                _with_imports(part, found)
    return found


def _digest_of_files(folder: Path, files: tuple[Path, ...] = (), without: tuple[str, ...] = ()) -> str:
    """Digest of source files by their place in a folder; of all of them when none is named."""
    chosen = files or sorted(folder.rglob("*.py"))
    named = {file.relative_to(folder): file for file in chosen if file.relative_to(folder).parts[0] not in without}
    return digest({name.as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for name, file in named.items()})


@cache
def model_version() -> str:
    """Digest of this package's version and of its sources that decide a row."""
    return digest([sim.__version__, _digest_of_files(Path(sim.__file__).parent, without=AFTER_A_RESULT)])


def describe(profile: Profile) -> Any:
    """A profile's label and values, as JSON can hold them."""
    values = {key: encode(quantity.value) for key, quantity in profile.quantities.items()}
    return [profile.label, values]


def key_maker(
    workload: Callable[..., Any], reads: Iterable[str | os.PathLike[str]], *options: Any
) -> Callable[[Mapping[str, Any], Profile], str]:
    """A function that gives the key of a point of this workload by its parameters and profile.

    `reads` are files whose content decides too. Raises `SweepError` for what cannot be told apart.
    """
    files = [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in reads]
    try:
        common = digest([identity(workload), model_version(), files, encode(options)])
    except RecursionError:
        raise SweepError(f"{name_of(workload)} refers to itself; give store=None") from None
    described = cache(lambda profile: digest(describe(profile)))

    def key(params: Mapping[str, Any], profile: Profile) -> str:
        return digest([common, {name: encode(value) for name, value in params.items()}, described(profile)])

    return key
