"""Which values matter, how often each is used, and which differ between the lanes of a warp."""

from __future__ import annotations

from sim.builder.ir import KEPT, Graph, If, Loop, Region, Value

_DIVERGENT_SOURCES = frozenset("atomic ldsm clock mma elect sums take put wgmma".split())
_VARYING_REGISTERS = frozenset(("TID_X", "TID_Y", "TID_Z", "LANEID", "EQMASK", "LTMASK", "LEMASK", "GTMASK", "GEMASK"))


class Marking:
    """`live`: numbers of values to compute; `nodes`: nests to keep; `uses`: uses by live values and nests."""

    def __init__(self, graph: Graph) -> None:
        self.live: set[int] = set()
        self.nodes: set[int] = set()
        self.uses: dict[int, int] = {}
        self._pending: list[Value] = []
        for item in graph.walk():
            if isinstance(item, Value) and item.op in KEPT:
                self._need(item)
        while self._pending:
            value = self._pending.pop()
            for arg in value.args:
                self.uses[arg.id] = self.uses.get(arg.id, 0) + 1
                self._need(arg)
            if value.owner is not None:
                self._need_node(value.owner)
            self._need_region(value.region)

    def _need(self, value: Value) -> None:
        if value.id not in self.live:
            self.live.add(value.id)
            self._pending.append(value)

    def _need_region(self, region: Region | None) -> None:
        while region is not None and region.node is not None and id(region.node) not in self.nodes:
            self._need_node(region.node)
            region = region.parent

    def _need_node(self, node: If | Loop) -> None:
        if id(node) in self.nodes:
            return
        self.nodes.add(id(node))
        assert node.condition is not None
        self.uses[node.condition.id] = self.uses.get(node.condition.id, 0) + 1
        self._need(node.condition)
        self._need_region(node.then.parent if isinstance(node, If) else node.body.parent)


def mark_uniform(graph: Graph) -> None:
    """Set `uniform` on every value: true when all lanes of a warp surely hold the same.

    Carries are taken to be uniform first; rounds repeat until nothing changes. A
    value that leaves a loop whose lanes may leave it in different rounds is not uniform.
    """
    changed = True
    first = True
    while changed:
        changed = _round(graph.root, first)
        first = False


def _set(value: Value, uniform: bool, first: bool) -> bool:
    if first or value.uniform != uniform:
        value.uniform = uniform
        return not first or not uniform
    return False


def _round(region: Region, first: bool) -> bool:
    changed = False
    for item in region.items:
        if isinstance(item, If):
            changed |= _round(item.then, first) | _round(item.otherwise, first)
            steady = _is_uniform(item.condition)
            for join in item.joins:
                changed |= _set(join, steady and all(_is_uniform(a) for a in join.args), first)
        elif isinstance(item, Loop):
            for carry in item.carries:
                if first:
                    carry.uniform = True
                changed |= _set(
                    carry, carry.uniform and all(_is_uniform(a) for a in carry.args[: 1 if first else 2]), False
                )
            changed |= _round(item.body, first)
            assert item.condition is not None
            for value in item.exits:
                changed |= _set(value, _is_uniform(item.condition) and _is_uniform(value.args[0]), first)
        else:
            changed |= _set(item, _value_is_uniform(item), first)
    return changed or first


def _is_uniform(value: Value) -> bool:
    if value.region is None:
        return value.op != "sreg" or value.attr.name not in _VARYING_REGISTERS
    return value.uniform


def _value_is_uniform(value: Value) -> bool:
    if value.op in _DIVERGENT_SOURCES:
        return False
    if value.op in ("vote", "uniform"):
        return True
    if value.op == "shfl":
        return value.attr == 0 and _is_uniform(value.args[1]) and value.args[2].attr == 31
    return all(_is_uniform(a) for a in value.args)


def is_uniform(value: Value) -> bool:
    """True when all lanes of a warp surely hold the same value. After `mark_uniform`."""
    return _is_uniform(value)
