"""The passes, in order: from a traced graph to a program."""

from __future__ import annotations

from collections.abc import Sequence

from sim.builder.addresses import AddressLowering
from sim.builder.allocate import Allocation, allocate
from sim.builder.coalesce import coalesce
from sim.builder.control import link, select_code
from sim.builder.emit import emit
from sim.builder.ir import Graph
from sim.builder.layout import tidy_branches
from sim.builder.machine import Code, Machine
from sim.builder.schedule import REGISTER_BUDGET, schedule
from sim.builder.unroll import LoopLowering
from sim.builder.vectors import merge_region
from sim.program import Param, Program


def schedule_and_allocate(code: Code) -> Allocation:
    """Order and number. Numbers may not fit the budget without gaps: then the order is made for a smaller one."""
    given = [list(block.code) for block in code.blocks]
    best: tuple[Allocation, list[list[Machine]]] | None = None
    for budget in range(REGISTER_BUDGET, REGISTER_BUDGET - 10, -2):
        for block, order in zip(code.blocks, given, strict=True):
            block.code = list(order)
        schedule(code, budget)
        numbers = allocate(code)
        if best is None or numbers.registers < best[0].registers:
            best = numbers, [block.code for block in code.blocks]
        if not REGISTER_BUDGET < numbers.registers <= REGISTER_BUDGET + 8:
            break
    assert best is not None
    for block, order in zip(code.blocks, best[1], strict=True):
        block.code = order
    return best[0]


def compile_graph(graph: Graph, params: Sequence[Param], param_bytes: int, param_base: int) -> Program:
    """A program of a traced kernel."""
    unrolled = LoopLowering(graph, hoist=True).run()
    lowering = AddressLowering(unrolled)
    lowered = lowering.run()
    merge_region(lowered, lowered.root, lowering.alignment)
    code = select_code(lowered)
    coalesce(code)
    tidy_branches(code)
    link(code)
    numbers = schedule_and_allocate(code)
    return emit(graph, code, numbers, params, param_base, param_bytes)
