"""The package as a user meets it: quick to import, its names where they are said to be."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sim

ROOT = Path(__file__).parents[1]
HEAVY = ("numba", "llvmlite", "numpy", "pandas", "matplotlib", "simpy", "pydantic", "rich", "typer")


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout.strip()


def test_importing_the_package_imports_nothing_heavy():
    assert python(f"import sim, sys; print([name for name in {HEAVY} if name in sys.modules])") == "[]"


def test_a_profile_needs_no_compiler():
    code = "import sim, sys; sim.load_profile('h200'); print([n for n in ('numba', 'pandas') if n in sys.modules])"
    assert python(code) == "[]"


@pytest.mark.parametrize("name", sim.__all__)
def test_public_names_are_there(name):
    assert getattr(sim, name) is not None
    assert name in dir(sim)


def test_the_names_that_the_documents_use_are_public():
    wanted = {"kernel", "simulate", "Device", "Launch", "Program", "Report", "Trace", "record", "sweep", "zeros"}
    assert wanted <= set(sim.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'sim' has no attribute 'simluate'"):
        sim.simluate  # noqa: B018


def test_no_module_hides_a_public_name():
    """Importing `sim.x` sets the attribute `x` of the package, so no module may be called as a public function is."""
    modules = {path.stem for path in Path(sim.__file__).parent.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert modules & set(sim.__all__) == set()


def test_public_functions_stay_functions_whatever_is_imported():
    for module in ("sim.sweeps", "sim.trace", "sim.device", "sim.report", "sim.builder", "sim.launch", "sim.profile"):
        importlib.import_module(module)
    assert all(
        callable(getattr(sim, name)) for name in ("sweep", "record", "simulate", "kernel", "zeros", "load_profile")
    )
