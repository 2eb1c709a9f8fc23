"""Build a kernel and run what it became, without timing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.program import Program
from tests.core import functional


def run(
    kernel: Any, args: Sequence[Any], grid: Any = 1, block: Any = 32, shared_bytes: int = 0, **constants: Any
) -> Program:
    """Run `kernel` on `args` (arrays are changed in place); its program."""
    program = kernel.build_for(args, constants)
    functional.run_functional(program, grid, block, args, shared_bytes=shared_bytes)
    return program


def issued(kernel: Any, args: Sequence[Any], grid: Any, block: Any, shared_bytes: int = 0, **constants: Any) -> float:
    """Warp instructions that `kernel` issues, divided by its warps."""
    program = kernel.build_for(args, constants)
    count = 0
    step = functional._step

    def counting(machine: Any, warp: Any, part: Any) -> None:
        nonlocal count
        count += 1
        step(machine, warp, part)

    functional._step = counting
    try:
        functional.run_functional(program, grid, block, args, shared_bytes=shared_bytes)
    finally:
        functional._step = step
    warps = int(np.prod(grid)) * -(-int(np.prod(block)) // 32)
    return count / warps


def mnemonics(program: Program) -> list[str]:
    """Opcodes with modifiers, in order."""
    return [i.text for i in program.instructions]


def count(program: Program, prefix: str) -> int:
    """Instructions whose mnemonic begins so."""
    return sum(i.text.startswith(prefix) for i in program.instructions)
