"""How long until something happens: importing the package, and the first report of a new process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

FIRST_REPORT = "import sim; from workloads import memory; sim.simulate(memory.copy(1 << 16), gpu='h200')"


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def test_python_alone(benchmark: Any) -> None:
    benchmark.pedantic(run, args=("pass",), rounds=5)


def test_import(benchmark: Any) -> None:
    benchmark.pedantic(run, args=("import sim",), rounds=5, warmup_rounds=1)


def test_second_process(benchmark: Any) -> None:
    benchmark.pedantic(run, args=(FIRST_REPORT,), rounds=3, warmup_rounds=1)
