"""`tailwave run`: simulate one workload and print its report."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sim.files import check_place
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


def parse_value(text: str) -> Any:
    """A parameter's value: a Python literal, a tile such as `256x128`, or else a word."""
    if re.fullmatch(r"\d+(x\d+)+", text):
        return tuple(int(part) for part in text.split("x"))
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text.lower(), text)


def parse_settings(settings: list[str], workload: Callable[..., Launch], name: str) -> dict[str, Any]:
    """`key=value` words as arguments of the workload; an unknown or missing key is refused with the signature."""
    values = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if key in values:
            raise typer.BadParameter(f"{key} is given twice")
        if not equals:
            raise typer.BadParameter(f"{setting!r}: write parameters as key=value, such as n=1024")
        values[key] = parse_value(text)
    try:
        inspect.signature(workload).bind(**values)
    except TypeError as error:
        raise typer.BadParameter(f"{error}; parameters: {name}{signature(workload)}") from None
    return values


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


def run(
    workload: Annotated[str, typer.Argument(help="module.function, such as memory.copy; see --list.")] = "",
    settings: Annotated[list[str] | None, typer.Argument(help="Parameters as key=value, such as n=1024.")] = None,
    gpu: Annotated[str, typer.Option(help="Profile name or TOML file.")] = "h200",
    json: Annotated[Path | None, typer.Option(help="Also write the report as JSON to this file.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare the kernel's result with NumPy's.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the workloads and their parameters.")] = False,
) -> None:
    """Simulate one workload and print the profiler's page."""
    from sim.device import simulate

    if list_ or not workload:
        typer.echo(list_workloads())
        return
    known = find_workloads()
    if workload not in known:
        close = difflib.get_close_matches(workload, known, n=3)
        hint = f"did you mean {', '.join(close)}?" if close else "`tailwave run --list` lists them"
        raise typer.BadParameter(f"no workload {workload!r}: {hint}")
    arguments = parse_settings(settings or [], known[workload], workload)
    if json is not None:
        check_place(json)
    try:
        launch = known[workload](**arguments)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(f"{workload}: {error}") from None
    report = simulate(launch, gpu=gpu)
    typer.echo(str(report))
    if json is not None:
        report.to_json(json)
    if check:
        launch.check(report)
        typer.echo("result: equal to NumPy's")
