"""Workloads by name: which there are, their parameters, and a launch of one from words."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import typer

from sim.cli.options import parse_value, split_settings
from sim.launch import Launch


def find_workloads() -> dict[str, Callable[..., Launch]]:
    """Every workload by `module.function`: the public functions of `workloads` that return a Launch."""
    import workloads

    found: dict[str, Callable[..., Launch]] = {}
    for module_info in pkgutil.iter_modules(workloads.__path__):
        module = importlib.import_module(f"workloads.{module_info.name}")
        for name, function in vars(module).items():
            public = inspect.isfunction(function) and not name.startswith("_")
            if public and function.__annotations__.get("return") in ("Launch", Launch):
                home = function.__module__ == module.__name__ or name in getattr(module, "__all__", ())
                if home:
                    found[f"{module_info.name}.{name}"] = function
    return dict(sorted(found.items()))


def find_workload(name: str) -> Callable[..., Launch]:
    """A workload by name. Raises `typer.BadParameter`, with close names, for one that there is not."""
    known = find_workloads()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {', '.join(close)}?" if close else "`tailwave run --list` lists them"
        raise typer.BadParameter(f"no workload {name!r}: {hint}")
    return known[name]


def check_parameters(name: str, workload: Callable[..., Launch], values: Mapping[str, Any]) -> None:
    """Refuse an unknown or missing parameter, with the signature."""
    try:
        inspect.signature(workload).bind(**values)
    except TypeError as error:
        raise typer.BadParameter(f"{error}; parameters: {name}{signature(workload)}") from None


def workload_launch(name: str, settings: list[str]) -> Launch:
    """The launch of a workload. Raises `typer.BadParameter` for a name or parameters that are not known."""
    workload = find_workload(name)
    values = {key: parse_value(text) for key, text in split_settings(settings).items()}
    check_parameters(name, workload, values)
    try:
        return workload(**values)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(f"{name}: {error}") from None


def signature(workload: Callable[..., Launch]) -> str:
    """The parameters with their defaults, without types."""
    parameters = inspect.signature(workload).parameters.values()
    return "(" + ", ".join(str(p.replace(annotation=p.empty)) for p in parameters) + ")"


def list_workloads() -> str:
    """A line a workload: name, parameters, what it does."""
    lines = []
    for name, workload in find_workloads().items():
        first_line = (inspect.getdoc(workload) or "").partition("\n")[0]
        lines.append(f"{name}{signature(workload)}\n    {first_line}")
    return "\n".join(lines)


def complete_workload(incomplete: str) -> list[str]:
    """Workloads that begin with what was typed."""
    return [name for name in find_workloads() if name.startswith(incomplete)]


def complete_settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """The parameters of the workload that was typed before, which are not given yet."""
    workload = find_workloads().get(ctx.params.get("workload") or "")
    if workload is None or "=" in incomplete:
        return []
    given = {word.partition("=")[0] for word in ctx.params.get("settings") or ()}
    free = [name for name in inspect.signature(workload).parameters if name not in given]
    return [f"{name}=" for name in free if name.startswith(incomplete)]
