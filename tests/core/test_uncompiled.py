"""Instructions and programs compute the same bits with and without the compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim._jit import COMPILED
from tests.core.everything import digests

ROOT = Path(__file__).parents[2]


def test_every_opcode_and_program_gives_the_same_bits_without_the_compiler():
    if not COMPILED:
        pytest.skip("this run has no compiler to compare with")
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-m", "tests.core.everything"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    plain, compiled = json.loads(ran.stdout), digests()
    assert plain.keys() == compiled.keys()
    assert {name for name in plain if plain[name] != compiled[name]} == set()
