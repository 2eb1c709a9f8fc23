"""Merging adjacent shared-memory loads into wide ones, as CUDA's compiler does."""

from __future__ import annotations

from dataclasses import replace

from sim.builder.ir import ASYNCHRONOUS, Graph, If, Loop, Region, Value
from sim.builder.polynomial import power_of_two
from sim.builder.types import register_type
from sim.isa import Space

_SHARED = (Space.SHARED, Space.GENERIC)  #: generic accesses are of the cluster, in which the block's own lies
_FENCES = ASYNCHRONOUS | frozenset("store atomic ldgsts wait bar membar warpsync end shfl vote".split())


def merge_region(graph: Graph, region: Region, alignment: dict[int, int]) -> None:
    """Merge in a region and those inside it. `alignment`: power of two that divides an address, by value number."""
    groups: dict[tuple[int, int, str], dict[int, Value]] = {}
    epoch = 0
    for item in region.items:
        if isinstance(item, If):
            merge_region(graph, item.then, alignment)
            merge_region(graph, item.otherwise, alignment)
            epoch += 1
        elif isinstance(item, Loop):
            merge_region(graph, item.body, alignment)
            epoch += 1
        elif (
            item.op == "load"
            and item.attr.space == Space.SHARED
            and item.attr.width == 1
            and item.attr.storage.bytes == 4
        ):
            key = (item.args[0].id, epoch, item.type.name)
            groups.setdefault(key, {}).setdefault(item.attr.offset, item)
        elif item.op in _FENCES and not (item.op in ("store", "atomic") and item.attr.space not in _SHARED):
            epoch += 1
    for (address, _, _), loads in groups.items():
        if len(loads) > 1:
            _merge_group(graph, region, loads, alignment.get(address, 4))


def _merge_group(graph: Graph, region: Region, loads: dict[int, Value], aligned: int) -> None:
    for words in (4, 2):
        size = 4 * words
        if aligned < size:
            continue
        for offset in sorted(loads):
            if power_of_two(offset) < size and offset:
                continue
            wanted = [offset + 4 * j for j in range(words)]
            if all(o in loads for o in wanted):
                _merge(graph, region, [loads.pop(o) for o in wanted])


def _merge(graph: Graph, region: Region, loads: list[Value]) -> None:
    order = {id(item): n for n, item in enumerate(region.items)}
    at = min(order[id(v)] for v in loads)
    first = loads[0]
    vector = Value(
        "load", register_type(first.attr.storage), first.args, replace(first.attr, width=len(loads)), region, first.line
    )
    vector.id = graph.count
    graph.count += 1
    region.items.insert(at, vector)
    for j, load in enumerate(loads):
        load.op, load.args, load.attr = "part", (vector,), j
