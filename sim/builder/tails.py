"""The end of a kernel: ways that end there become exits, with what follows outside the `If`."""

from __future__ import annotations

from sim.builder.ir import Graph, If, Loop, Region, Value
from sim.builder.types import BOOL


def flatten_tails(graph: Graph) -> None:
    """Ways that end in the kernel's end become exits, with the rest of the kernel outside the `If`."""
    _exits_under_conditions(graph, graph.root)
    root = graph.root
    while root.items and isinstance(root.items[-1], If) and not root.terminated:
        node = root.items[-1]
        node.joins = []  # nothing comes after that could use them
        line = node.line
        if not node.otherwise.items:
            root.items[-1] = _exit(graph, root, _negated(graph, root, node.condition), line)
            _splice(root, node.then)
            root.terminated = node.then.terminated
        else:
            if _length(node.otherwise) < _length(node.then):
                _swap(graph, root, node)
            if not node.then.terminated:
                node.then.items.append(_exit(graph, node.then, None, line))
                node.then.terminated = True
            rest = node.otherwise
            node.otherwise = Region(root, node)
            _splice(root, rest)
            root.terminated = rest.terminated


def _length(region: Region) -> int:
    return sum(1 if isinstance(i, Value) else 20 for i in region.items)


def _swap(graph: Graph, root: Region, node: If) -> None:
    place = root.items.index(node)
    condition = _negated(graph, root, node.condition, place)
    node.condition = condition
    node.then, node.otherwise = node.otherwise, node.then


def _negated(graph: Graph, region: Region, condition: Value, place: int | None = None) -> Value:
    if condition.op == "pnot":
        return condition.args[0]
    value = Value("pnot", BOOL, (condition,), None, region, condition.line)
    value.id = graph.count
    graph.count += 1
    region.items.insert(len(region.items) - 1 if place is None else place, value)
    return value


def _exit(graph: Graph, region: Region, condition: Value | None, line: int) -> Value:
    value = Value("end", BOOL, () if condition is None else (condition,), None, region, line)
    value.id = graph.count
    graph.count += 1
    return value


def _splice(region: Region, inner: Region) -> None:
    """Append the items of `inner` to `region`, as its own."""
    for item in inner.items:
        adopt(region, item)
        region.items.append(item)
    inner.items = []


def adopt(region: Region, item: Value | If | Loop) -> None:
    """Make an item belong to `region`."""
    if isinstance(item, Value):
        item.region = region
    elif isinstance(item, If):
        item.then.parent = item.otherwise.parent = region
        for join in item.joins:
            join.region = region
    else:
        item.body.parent = region
        for value in item.exits:
            value.region = region


def _exits_under_conditions(graph: Graph, region: Region) -> None:
    """`if c: return` becomes an exit with a condition."""
    for at, item in enumerate(region.items):
        if isinstance(item, If):
            then, otherwise = item.then, item.otherwise
            if not item.joins and not otherwise.items and _only_exits(then):
                region.items[at] = _exit(graph, region, item.condition, item.line)
            else:
                _exits_under_conditions(graph, then)
                _exits_under_conditions(graph, otherwise)
        elif isinstance(item, Loop):
            _exits_under_conditions(graph, item.body)


def _only_exits(region: Region) -> bool:
    if len(region.items) != 1:
        return False
    item = region.items[0]
    return isinstance(item, Value) and is_exit(item) and not item.args


def is_exit(item: Value | If | Loop) -> bool:
    """True for the end of threads."""
    return isinstance(item, Value) and item.op == "end"
