"""Notebooks run from a clean kernel, are committed with their outputs, and their exercises can be solved."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.extras import needs_cuda
from tests.lesson_solutions import SOLUTIONS

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXERCISE, CHECK = "exercise-", "check-"  #: how the ids of an exercise's cell and of the check after it begin
SOLVED, UNSOLVED = "Solved.", "Not solved yet: see ✗."


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]


def printed(cell: dict[str, Any]) -> list[str]:
    """The lines that a cell printed."""
    return "".join("".join(output.get("text", "")) for output in cell["outputs"]).splitlines()


def executable() -> list[Any]:
    """The notebooks, each where what it needs is installed."""
    return [
        pytest.param(path, marks=[needs_cuda] if "compile_cuda" in path.read_text() else [], id=path.stem)
        for path in NOTEBOOKS
    ]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_outputs_are_there(notebook: Path) -> None:
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"])
    assert not [output for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_exercises_are_committed_unsolved_and_have_solutions(notebook: Path) -> None:
    cells = {cell["id"]: cell for cell in code_cells(notebook)}
    exercises = [name for name in cells if name.startswith(EXERCISE)]
    assert exercises == list(SOLUTIONS.get(notebook.stem, {}))
    for name in exercises:
        lines = printed(cells[name.replace(EXERCISE, CHECK)])
        assert lines[-1] == UNSOLVED and [line for line in lines[:-1] if line.startswith("✗")]


@pytest.mark.parametrize("notebook", executable())
def test_it_runs_from_a_clean_kernel_and_its_exercises_can_be_solved(notebook: Path) -> None:
    """Each check runs twice: on the exercise as it is committed, and on the solution."""
    why = "the extra is not installed: pip install 'tailwave[notebook]'"
    nbclient, nbformat = (pytest.importorskip(name, reason=why) for name in ("nbclient", "nbformat"))
    pytest.importorskip("ipykernel", reason=why)
    content = nbformat.read(notebook, as_version=4)
    cells, committed = [], {}
    for cell in content.cells:
        cells.append(cell)
        if cell.id.startswith(CHECK):
            committed[cell.id] = printed(cell)
            solution = SOLUTIONS[notebook.stem][cell.id.replace(CHECK, EXERCISE)]
            cells += [nbformat.v4.new_code_cell(solution), copy.deepcopy(cell)]
    content.cells = cells
    where = {"metadata": {"path": str(notebook.parent)}}
    nbclient.NotebookClient(content, timeout=300, kernel_name="python3", resources=where).execute()
    checks = [(cell.id, printed(cell)) for cell in cells if cell.id.startswith(CHECK)]
    assert checks[::2] == list(committed.items())
    assert [(name, lines[-1]) for name, lines in checks[1::2]] == [(name, SOLVED) for name in committed]
