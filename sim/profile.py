"""Hardware profiles: find, read and check the TOML file that describes a GPU.

A value in a file is a table `{value, unit, source, confidence}`; in Python it is the
plain value at `profile.section.key`, and `profile.quantity("section.key")` has the
rest. `sim.profile_keys` says which keys there are.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import os
import re
import tomllib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import hardware_profiles
from sim.profile_checks import CHECKS
from sim.profile_keys import OccupancyLimits, OpTiming, Sections, Unit

__all__ = ["OccupancyLimits", "OpTiming", "Profile", "ProfileError", "Quantity", "load_profile", "names"]

CONFIDENCES = {
    "H": "vendor header, device query or own measurement on the part",
    "M": "one paper or log on the part or a close sibling",
    "L": "second-hand, derived or contested",
}


class ProfileError(ValueError):
    """A profile that cannot be used; the message has a line for each problem."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with what is known about it."""

    value: Any
    unit: str
    source: str
    confidence: str  #: a key of `CONFIDENCES`


@dataclass(frozen=True, kw_only=True)
class Profile(Sections):
    """A checked, immutable GPU description. Equal profiles have equal names and values."""

    name: str
    quantities: Mapping[str, Quantity] = field(compare=False, repr=False)
    overrides: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """The name, with what was overridden."""
        changes = ", ".join(f"{key}={value}" for key, value in self.overrides)
        return f"{self.name} ({changes})" if changes else self.name

    def __repr__(self) -> str:
        return f"<Profile {self.label}: {self.gpu.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """To another process a profile goes as what it is made of: it needs no file there."""
        return _rebuild, (self.name, dict(self.quantities), self.overrides)

    def quantity(self, key: str) -> Quantity:
        """Value, unit, source and confidence of `"section.key"`; `KeyError` with near matches if there is none."""
        if key not in self.quantities:
            raise KeyError(f"profile {self.name!r} has no key {key!r}{_near(key, self.quantities)}")
        return self.quantities[key]

    def override(self, changes: Mapping[str, Any]) -> Profile:
        """A checked copy with other values, by `"section.key"`.

        Raises `ProfileError` for an unknown key and for an impossible value, alone or with the others.
        """
        where = f"override of profile {self.name!r}"
        if not isinstance(changes, Mapping):
            raise ProfileError(f'{where}: give a dict such as {{"gpu.sm_count": 2}}, not {changes!r}')
        quantities = dict(self.quantities)
        for key, value in changes.items():
            if key not in quantities:
                raise ProfileError(f"{where}: unknown key {key!r}{_near(key, quantities)}")
            value = tuple(value) if isinstance(value, list) else value
            old = quantities[key]
            quantities[key] = Quantity(value, old.unit, f"override (profile: {old.value})", "L")
        made = dict(self.overrides) | {key: quantities[key].value for key in changes}
        return _build(self.name, quantities, lambda key: f"{where}: {key}", tuple(sorted(made.items())))


def names() -> list[str]:
    """Names of the profiles that come with the package, sorted."""
    return sorted(path.stem for path in hardware_profiles.DIRECTORY.glob("*.toml"))


def load_profile(profile: str | os.PathLike[str] | Profile) -> Profile:
    """The profile of a name such as `"h200"` or of a TOML file; a `Profile` is returned as it is.

    A string that ends in `.toml` or has a directory separator is a file. Raises
    `ProfileError` with a line for each problem: file, line, key, why, what to do.
    """
    if isinstance(profile, Profile):
        return profile
    if not isinstance(profile, str | os.PathLike):
        raise ProfileError(f"a GPU is a profile's name, a TOML file's path or a Profile, not {profile!r}")
    text = os.fspath(profile)
    if isinstance(profile, os.PathLike) or text.endswith(".toml") or os.sep in text:
        path = Path(text)
        if not path.is_file():
            raise ProfileError(f"no profile file {text!r}: give an existing TOML file or a name: {', '.join(names())}")
    else:
        path = hardware_profiles.DIRECTORY / f"{text}.toml"
        if text not in names():
            known = names()
            raise ProfileError(f"unknown profile {text!r}{_near(text, known)}; profiles: {', '.join(known)}")
    stat = path.stat()
    return _load(path, (stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=64)
def _load(path: Path, _stamp: tuple[int, int]) -> Profile:
    """Read and check one file; the stamp makes a changed file a new cache entry."""
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path.name}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path.name}: not valid TOML: {error}") from None
    lines = _line_numbers(text)

    def where(key: str) -> str:
        return f"{path.name}:{_nearest_line(lines, key)}: {key}"

    problems: list[str] = []
    quantities = dict(_quantities(tables, where, problems))
    if problems:
        raise ProfileError("\n".join(problems))
    return _build(path.stem, quantities, where, ())


def _quantities(tables: Mapping[str, Any], where: Any, problems: list[str]) -> Iterator[tuple[str, Quantity]]:
    """The known keys' quantities; unknown and missing keys and incomplete values go to `problems`."""
    units = _units()
    found: dict[str, Any] = {}
    _flatten(tables, "", found)
    for key, entry in found.items():
        if key not in units:
            problems.append(f"{where(key)}: unknown key{_near(key, units)}; remove or rename it")
            continue
        if not isinstance(entry, dict) or set(entry) != {"value", "unit", "source", "confidence"}:
            problems.append(f"{where(key)}: {_incomplete(entry)}; write {{value, unit, source, confidence}}")
            continue
        unit, source, confidence = entry["unit"], entry["source"], entry["confidence"]
        if unit != units[key]:
            problems.append(f"{where(key)}: unit is {unit!r}; give the value in {units[key]!r}")
        if not isinstance(source, str) or not source.strip():
            problems.append(f"{where(key)}: source is empty; say where the value comes from")
        if confidence not in CONFIDENCES:
            problems.append(f"{where(key)}: confidence is {confidence!r}; use one of {', '.join(CONFIDENCES)}")
        value = entry["value"]
        yield key, Quantity(tuple(value) if isinstance(value, list) else value, unit, source, confidence)
    given = {key.rpartition(".")[0] for key in found}
    left_out = [f"{f.name}." for f in dataclasses.fields(Sections) if f.default is None and f.name not in given]
    for key in (key for key in units if key not in found and key not in _optional()):
        if key.startswith(tuple(left_out)):
            continue
        problems.append(f"{where(key)}: missing key (unit {units[key]!r}); add it")


def _incomplete(entry: Any) -> str:
    if not isinstance(entry, dict):
        return f"bare value {entry!r} without unit, source and confidence"
    known = {"value", "unit", "source", "confidence"}
    missing, extra = sorted(known - set(entry)), sorted(set(entry) - known)
    return ", ".join([f"{name} is missing" for name in missing] + [f"{name!r} is not known here" for name in extra])


def _flatten(table: Mapping[str, Any], prefix: str, out: dict[str, Any]) -> None:
    """Collect `section.key` entries; a table is a value when its section has no such sub-table."""
    sections = _section_names()
    for name, entry in table.items():
        key = f"{prefix}{name}"
        if isinstance(entry, dict) and (key in sections or (not prefix and "value" not in entry)):
            _flatten(entry, f"{key}.", out)
        else:
            out[key] = entry


def _build(
    name: str, quantities: Mapping[str, Quantity], where: Any, overrides: tuple[tuple[str, Any], ...]
) -> Profile:
    """Records of the quantities' values, with types, limits and cross-checks enforced."""
    from pydantic import ValidationError

    tree: dict[str, Any] = {}
    for key, quantity in quantities.items():
        if isinstance(quantity.value, float) and not math.isfinite(quantity.value):
            raise ProfileError(f"{where(key)}: {quantity.value} is no quantity; give a finite number")
        *path, last = key.split(".")
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node[last] = quantity.value
    try:  # as JSON, where strict validation still takes tables for records and arrays for tuples
        sections = _validator().validate_json(json.dumps(tree), strict=True)
    except TypeError as error:
        raise ProfileError(f"profile {name!r}: {error}: give plain numbers, texts and lists") from None
    except ValidationError as error:
        raise ProfileError("\n".join(_explain(problem, where) for problem in error.errors())) from None
    broken = [f"{where(check.key)}: {check.message(sections)}" for check in CHECKS if not check.holds(sections)]
    if broken:
        raise ProfileError("\n".join(broken))
    values = {f.name: getattr(sections, f.name) for f in dataclasses.fields(Sections)}
    return Profile(name=name, quantities=MappingProxyType(dict(quantities)), overrides=overrides, **values)


def _rebuild(name: str, quantities: Mapping[str, Quantity], overrides: tuple[tuple[str, Any], ...]) -> Profile:
    """An unpickled profile."""
    return _build(name, quantities, lambda key: f"profile {name!r}: {key}", overrides)


def _explain(problem: Any, where: Any) -> str:
    """One line for a pydantic error: the key's place, the value, what is wrong."""
    key = ".".join(str(step) for step in problem["loc"] if not isinstance(step, int))
    message = problem["msg"][:1].lower() + problem["msg"][1:]
    return f"{where(key)}: {problem['input']!r}: {message}"


@cache
def _validator() -> Any:
    """Pydantic's validator of `Sections`, made on first use: importing pydantic takes longer than reading a file."""
    from pydantic import TypeAdapter

    return TypeAdapter(Sections)


@cache
def _keys() -> Mapping[str, tuple[str, bool]]:
    """`section.key` -> unit, optional; sections end in a dot."""
    out: dict[str, tuple[str, bool]] = {}

    def walk(record: type, prefix: str) -> None:
        hints = typing.get_type_hints(record, include_extras=True)
        for f in dataclasses.fields(record):
            hint = hints[f.name]
            if f.default is None and typing.get_args(hint) and dataclasses.is_dataclass(typing.get_args(hint)[0]):
                hint = typing.get_args(hint)[0]  # a section that a profile may leave out
            if dataclasses.is_dataclass(hint):
                out[f"{prefix}{f.name}."] = ("", False)
                walk(typing.cast(type, hint), f"{prefix}{f.name}.")
            else:
                out[f"{prefix}{f.name}"] = (_unit(hint), f.default is None)

    walk(Sections, "")
    return out


def _unit(hint: Any) -> str:
    for part in (hint, *typing.get_args(hint)):
        for item in getattr(part, "__metadata__", ()):
            if isinstance(item, Unit):
                return item.name
    raise TypeError(f"profile key of type {hint} states no unit")


@cache
def _units() -> Mapping[str, str]:
    return {key: unit for key, (unit, _) in _keys().items() if not key.endswith(".")}


@cache
def _optional() -> frozenset[str]:
    return frozenset(key for key, (_, optional) in _keys().items() if optional)


@cache
def _section_names() -> frozenset[str]:
    return frozenset(key[:-1] for key in _keys() if key.endswith("."))


_HEADER = re.compile(r"\s*\[\s*([\w.]+)\s*\]")
_KEY = re.compile(r"\s*([\w.]+)\s*=")


def _line_numbers(text: str) -> dict[str, int]:
    """Line of each section header and each `section.key`."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = header[1]
            lines.setdefault(section, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{section}.{key[1]}" if section else key[1], number)
    return lines


def _nearest_line(lines: Mapping[str, int], key: str) -> int:
    """The key's line, else its section's, else 1."""
    while key not in lines and "." in key:
        key = key.rpartition(".")[0]
    return lines.get(key, 1)


def _near(word: str, known: Any) -> str:
    """`; did you mean ...?` or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
