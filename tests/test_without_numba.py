"""Whole simulations give the same bytes compiled, with the compiler off, and where Numba is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim._jit import COMPILED
from tests.without_numba import digests

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [([], {"NUMBA_DISABLE_JIT": "1"}), (["hide-numba"], {})],
    ids=["compiler off", "not installed"],
)
def test_simulations_are_the_same_without_numba(arguments, variables):
    if not COMPILED:
        pytest.skip("this run has no compiler to compare with")
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-m", "tests.without_numba", *arguments]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout) == digests()
