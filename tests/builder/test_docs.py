"""Does the code in docs/kernels.md run?"""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import numpy as np

import sim
from tests.builder.run import run

DOCS = Path(__file__).parents[2] / "docs" / "kernels.md"


def test_the_code_runs(capsys):
    code = "\n".join(re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL))
    linecache.cache["<kernels.md>"] = (len(code), None, code.splitlines(keepends=True), "<kernels.md>")
    scope: dict = {}
    exec(compile(code, "<kernels.md>", "exec"), scope)
    assert "FFMA" in capsys.readouterr().out
    x, steps = np.arange(1, 33, dtype=np.int32), np.zeros(32, np.int32)
    run(scope["collatz"], (x, steps))
    assert steps[26] == 111
    a, sums = np.ones((32, 5), np.float32), np.zeros(32, np.float32)
    run(scope["row_sums"], (a, sums, 5))
    assert sums.tolist() == [5.0] * 32
    scope["tiled"].check(sim.simulate(scope["tiled"]))
