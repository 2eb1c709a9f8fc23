"""Makes the pages of docs/generated/ when the site is built: profiles' keys and values, and the workloads.

They are not committed: a hardware number stands in its profile and nowhere else.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import itertools
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.pycode import ModuleAnalyzer

from sim import profile_keys
from sim.cli.workloads import find_workloads
from sim.profile import CONFIDENCES, Profile, load_profile, names

HERE = Path(__file__).parent / "generated"


def write(folder: Path = HERE) -> None:
    """Write the pages; those that have not changed keep their dates, and Sphinx does not read them again."""
    folder.mkdir(exist_ok=True)
    profiles = sorted(map(load_profile, names()), key=lambda p: (p.gpu.compute_capability, p.name))
    pages = {"keys": keys_page(profiles), "workloads": workloads_page()}
    pages |= {f"profile_{profile.name}": profile_page(profile) for profile in profiles}
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def workloads_page() -> str:
    """The workloads that `tailwave run --list` lists, by module, with their docstrings."""
    lines = [
        "# Workloads",
        "",
        "Each returns a `sim.Launch`; `tailwave run --list` lists them with their defaults.",
        "",
    ]
    for module, found in itertools.groupby(find_workloads(), lambda name: name.partition(".")[0]):
        about = inspect.getdoc(importlib.import_module(f"workloads.{module}")) or ""
        lines += [f"## workloads.{module}", "", about.partition("\n\n")[0], "", "```{eval-rst}"]
        lines += [f".. autofunction:: workloads.{name}" for name in found]
        lines += ["```", ""]
    return "\n".join(lines)


def keys_page(profiles: list[Profile]) -> str:
    """What each key means, and its values side by side."""
    dash = "A dash: the GPU has no such unit, or the key may be left out."
    return "\n".join(["# All keys, and all GPUs side by side", "", dash, "", *_sections(profiles)])


def profile_page(profile: Profile) -> str:
    """Every value of one GPU with its unit, confidence and source."""
    confidences = "; ".join(f"{letter}: {text}" for letter, text in CONFIDENCES.items())
    lines = [f"# {profile.gpu.name}", "", f"Profile `{profile.name}`. Confidence {confidences}.", ""]
    for section, record in _records():
        keys = [key for key in profile.quantities if key.startswith(f"{section}.")]
        if keys:
            lines += [f"## [{section}]", "", _about(record), ""]
            rows = [_row_of_source(key.removeprefix(f"{section}."), profile.quantity(key)) for key in keys]
            lines += [*_table(("Key", "Value", "Unit", "H M L", "Source"), rows), ""]
    return "\n".join(lines)


def _sections(profiles: list[Profile]) -> Iterator[str]:
    for section, record in _records():
        yield f"## [{section}]\n\n{_about(record)}\n"
        yield from _table(("Key", "Unit", "Meaning"), _meanings(record))
        columns = ("Key", *(p.name.replace("_", " ") for p in profiles))
        yield ""
        yield from _table(columns, _values(section, profiles))
        yield ""


def _records() -> Iterator[tuple[str, type]]:
    """The sections of a file, with the records of their keys."""
    hints = typing.get_type_hints(profile_keys.Sections)
    for field in dataclasses.fields(profile_keys.Sections):
        yield field.name, _record_in(hints[field.name])


def _record_in(hint: Any) -> Any:
    """The record in `Record` or `Record | None`; None if the hint is a plain value's."""
    parts = (hint, *typing.get_args(hint))
    return next((part for part in parts if isinstance(part, type) and dataclasses.is_dataclass(part)), None)


def _meanings(record: type) -> Iterator[tuple[str, ...]]:
    """Key, unit and meaning; of a record of records those of the rows, then those of what each row holds."""
    hints = typing.get_type_hints(record, include_extras=True)
    inner = None
    for name, hint in hints.items():
        inner = _record_in(hint)
        unit = "" if inner else next(m.name for m in _metadata(hint) if isinstance(m, profile_keys.Unit))
        yield f"`{name}.*`" if inner else f"`{name}`", unit, _meaning(record, name)
    if inner:
        yield from ((key.replace("`", "`*.", 1), *rest) for key, *rest in _meanings(inner))


def _metadata(hint: Any) -> Iterator[Any]:
    for part in (hint, *typing.get_args(hint)):
        yield from getattr(part, "__metadata__", ())


def _meaning(record: type, name: str) -> str:
    """The comment beside the key. Raises `KeyError` where there is none."""
    comments = ModuleAnalyzer.for_module(profile_keys.__name__).find_attr_docs()
    return " ".join(comments[record.__name__, name]).strip()


def _values(section: str, profiles: list[Profile]) -> Iterator[tuple[str, ...]]:
    keys = dict.fromkeys(key for p in profiles for key in p.quantities if key.startswith(f"{section}."))
    for key in keys:
        shown = (_shown(p.quantities[key].value) if key in p.quantities else "-" for p in profiles)
        yield key.removeprefix(f"{section}.").replace("_", "_<wbr>"), *shown


def _row_of_source(key: str, quantity: Any) -> tuple[str, ...]:
    return f"`{key}`", _shown(quantity.value), quantity.unit, quantity.confidence, quantity.source


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _about(record: type) -> str:
    return inspect.getdoc(record) or ""


def _table(head: tuple[str, ...], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
