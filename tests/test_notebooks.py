"""Notebooks run from a clean kernel, and are committed with their outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.extras import needs_cuda

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_outputs_are_there(notebook: Path) -> None:
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"])
    assert not [output for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]


@needs_cuda
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_from_a_clean_kernel(notebook: Path) -> None:
    why = "the extra is not installed: pip install 'tailwave[notebook]'"
    nbclient, nbformat = (pytest.importorskip(name, reason=why) for name in ("nbclient", "nbformat"))
    pytest.importorskip("ipykernel", reason=why)
    content = nbformat.read(notebook, as_version=4)
    where = {"metadata": {"path": str(notebook.parent)}}
    nbclient.NotebookClient(content, timeout=300, kernel_name="python3", resources=where).execute()
