"""What commands share: options with their completion, files to write or standard output, values from words."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sim.files import check_place, whole_file
from sim.profile import names

STANDARD_OUTPUT = Path("-")


def complete_gpu(incomplete: str) -> list[str]:
    """Profile names that begin with what was typed."""
    return [name for name in names() if name.startswith(incomplete)]


def complete_metric(incomplete: str) -> list[str]:
    """Metrics that begin with what was typed."""
    from sim.report.metrics import TABLE

    return [name for name in TABLE if name.startswith(incomplete)]


def check_detail(detail: str) -> str:
    """The value of --detail, if there is such a one."""
    from sim.sampling import DETAILS

    if detail not in DETAILS:
        raise typer.BadParameter(f"{detail!r}: use {', '.join(DETAILS)}")
    return detail


Gpu = Annotated[str, typer.Option(help="Profile name or TOML file.", autocompletion=complete_gpu)]
Detail = Annotated[
    str,
    typer.Option(
        help="auto, full, or sampled: run a part of the blocks, on a scale model of the GPU.", callback=check_detail
    ),
]
Json = Annotated[Path | None, typer.Option(help="Also write it as JSON to this file; - prints it instead.")]
Processes = Annotated[int | None, typer.Option(min=1, help="Processes to use; default: one a core.")]


def check_places(*paths: Path | None) -> None:
    """Ask of each file whether it can be written, before long work; refuse two that want standard output."""
    given = [path for path in paths if path is not None]
    if given.count(STANDARD_OUTPUT) > 1:
        raise typer.BadParameter("only one of the outputs can go to standard output (-)")
    for path in given:
        if path != STANDARD_OUTPUT:
            check_place(path)


def write(path: Path | None, text: Callable[[], str]) -> None:
    """Write a text whole to a file, print it, or neither."""
    if path is None:
        return
    if path == STANDARD_OUTPUT:
        typer.echo(text().removesuffix("\n"))
        return
    with whole_file(path) as partial:
        partial.write_text(text(), encoding="utf-8", newline="\n")


def parse_value(text: str) -> Any:
    """A parameter's value: a Python literal, a tile such as `256x128`, or else a word."""
    if re.fullmatch(r"\d+(x\d+)+", text):
        return tuple(int(part) for part in text.split("x"))
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text.lower(), text)


def parse_values(text: str) -> list[Any]:
    """Values separated by commas; `256:1024:64` are whole numbers from first to last, in steps (1 if not said)."""
    values: list[Any] = []
    for part in text.split(","):
        if found := re.fullmatch(r"(-?\d+):(-?\d+)(?::(\d+))?", part):
            first, last, step = (int(number) for number in found.groups(default="1"))
            if step < 1 or last < first:
                raise typer.BadParameter(f"{part!r}: write first:last:step, such as 256:1024:64, with first <= last")
            values += range(first, last + 1, step)
        else:
            values.append(parse_value(part))
    return values


def split_settings(settings: list[str]) -> dict[str, str]:
    """`key=value` words by key; refuses other words, and a key that is there twice."""
    found: dict[str, str] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise typer.BadParameter(f"{setting!r}: write parameters as key=value, such as n=1024")
        if key in found:
            raise typer.BadParameter(f"{key} is given twice")
        found[key] = text
    return found
