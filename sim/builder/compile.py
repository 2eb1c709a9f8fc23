"""The passes, in order: from a traced graph to a program."""

from __future__ import annotations

from collections.abc import Sequence

from sim.builder.addresses import AddressLowering, merge_shared_loads
from sim.builder.allocate import allocate
from sim.builder.coalesce import coalesce
from sim.builder.control import link, select_code
from sim.builder.emit import emit
from sim.builder.ir import Graph
from sim.builder.layout import tidy_branches
from sim.builder.schedule import schedule
from sim.builder.unroll import LoopLowering
from sim.program import Param, Program


def compile_graph(graph: Graph, params: Sequence[Param], param_bytes: int, param_base: int) -> Program:
    """A program of a traced kernel."""
    unrolled = LoopLowering(graph, hoist=True).run()
    lowering = AddressLowering(unrolled)
    lowered = lowering.run()
    merge_shared_loads(lowered, lowering.alignment)
    code = select_code(lowered)
    coalesce(code)
    tidy_branches(code)
    link(code)
    schedule(code)
    numbers = allocate(code)
    return emit(graph.name, code, numbers, params, param_base, param_bytes, graph.shared_bytes, graph.lines)
