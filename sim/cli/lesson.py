"""`tailwave lesson`: list the lessons, copy one to the current folder, open it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from notebooks import DIRECTORY
from sim.files import whole_file


def lessons() -> dict[str, Path]:
    """The notebooks by name, in their order."""
    return {path.stem: path for path in sorted(DIRECTORY.glob("*.ipynb"))}


def title(notebook: Path) -> str:
    """The first heading of a notebook."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and text.startswith("#"):
            return text.partition("\n")[0].lstrip("# ")
    return ""


def complete_lesson(incomplete: str) -> list[str]:
    """Lessons that begin with what was typed."""
    return [name for name in lessons() if name.startswith(incomplete)]


def lesson(
    name: Annotated[
        str, typer.Argument(help="A lesson's name, or how it begins, such as 02.", autocompletion=complete_lesson)
    ] = "",
    open_: Annotated[bool, typer.Option("--open", help="Open the copy in Jupyter.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a copy that is there, and what was done in it.")
    ] = False,
) -> None:
    """List the lessons, and copy one to work in.

    The copy goes to the current folder.

    \b
    Examples:
      tailwave lesson
      tailwave lesson 00 --force
    """
    known = lessons()
    if not name:
        width = max(map(len, known))
        typer.echo("\n".join(f"{stem:<{width}}  {title(path)}" for stem, path in known.items()))
        return
    matches = [stem for stem in known if stem.startswith(name)]
    if name in known:
        matches = [name]
    if len(matches) != 1:
        raise typer.BadParameter(
            f"{name!r} is {'no lesson' if not matches else 'more than one lesson'}; there are {', '.join(known)}"
        )
    if open_:
        check_jupyter()
    copy = Path(f"{matches[0]}.ipynb")
    if copy.exists() and not force and not open_:
        raise typer.BadParameter(f"{copy} is here already: open that one (--open), or overwrite it (--force)")
    if not copy.exists() or force:
        with whole_file(copy) as partial:
            shutil.copyfile(known[matches[0]], partial)
    if not open_:
        typer.echo(f"{copy}: open it with `tailwave lesson {matches[0]} --open`, or in any notebook editor")
        return
    os.execv(
        sys.executable, [sys.executable, "-m", "jupyter", "lab" if installed("jupyterlab") else "notebook", str(copy)]
    )


def installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def check_jupyter() -> None:
    """Refuse to open a lesson without Jupyter."""
    if not installed("jupyterlab") and not installed("notebook"):
        raise typer.BadParameter("Jupyter is not installed: pip install jupyterlab")
