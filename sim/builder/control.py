"""Control flow: regions become blocks with branches, convergence barriers and guarded instructions.

Regions are walked from their end (see `select`). A short way of an `If` becomes
guarded instructions; a longer one is branched around. Where lanes of a warp may
go different ways, BSSY and BSYNC bring them together again, unless what follows
is the end of an outer such part, or of the kernel.
"""

from __future__ import annotations

from sim.builder import (
    select_choice,
    select_convert,
    select_float,
    select_integer,
    select_logic,
    select_memory,
    select_wide,
)
from sim.builder.errors import BuildError
from sim.builder.instructions import load_constant, move
from sim.builder.ir import KEPT, Graph, If, Loop, Region, Value
from sim.builder.machine import Block, Code, Guard, Lane, Machine
from sim.builder.marking import is_uniform, mark_uniform
from sim.builder.select import STACK_POINTER, Selector, is_alias
from sim.builder.types import BOOL
from sim.isa import CONVERGENCE_BARRIERS, Op, TimingClass

#: Imported for the handlers that they register.
HANDLER_FILES = (select_choice, select_convert, select_float, select_integer, select_logic, select_memory, select_wide)
GUARD_LIMIT = 8  #: instructions of a way that is guarded instead of branched around
_UNGUARDED = frozenset(("bar", "warpsync", "membar", "wait", "commit", "shfl", "vote", "mma", "ldsm", "clock"))


def select_code(graph: Graph) -> Code:
    """Machine code of a graph whose loops and addresses are lowered."""
    flatten_tails(graph)
    mark_uniform(graph)
    s = Selector(graph)
    if not graph.root.terminated:
        s.put(Machine(Op.EXIT, TimingClass.BRANCH, "EXIT"))
    walk(s, graph.root)
    s.flush(graph.root)
    s.line = -1
    s.put(load_constant(s.register(), STACK_POINTER.offset, 1))
    s.blocks.append(s.block)
    s.blocks.reverse()
    for number, block in enumerate(s.blocks):
        block.code.reverse()
        block.number = number
    s.code.blocks = s.blocks
    _rename(s)
    link(s.code)
    return s.code


def _rename(s: Selector) -> None:
    """Put the registers of leaves that were made further up in the place of those that they made needless."""

    def renamed(operand: object) -> object:
        while type(operand) is Lane and operand.reg.id in s.same:
            operand = Lane(s.same[operand.reg.id].reg, operand.word)
        return operand

    if s.same:
        for block in s.blocks:
            for m in block.code:
                m.a, m.b, m.c, m.dst = renamed(m.a), renamed(m.b), renamed(m.c), renamed(m.dst)  # type: ignore[assignment]


def link(code: Code) -> None:
    """Set the successors of all blocks from their last instructions."""
    for block, following in zip(code.blocks, [*code.blocks[1:], None], strict=True):
        block.successors = []
        falls = True
        for m in block.code:
            if m.op is Op.BRA:
                assert m.target is not None
                block.successors.append(m.target)
                falls = m.guard is not None
            elif m.op is Op.EXIT and m.guard is None:
                falls = False
        if falls and following is not None:
            block.successors.append(following)


# --- the shape of the end of a kernel
def flatten_tails(graph: Graph) -> None:
    """Ways that end in the kernel's end become exits, with the rest of the kernel outside the `If`."""
    _exits_under_conditions(graph, graph.root)
    root = graph.root
    while root.items and isinstance(root.items[-1], If) and not root.terminated:
        node = root.items[-1]
        if node.joins:
            return
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
            if (
                not item.joins
                and not otherwise.items
                and len(then.items) == 1
                and _is_exit(then.items[0])
                and not then.items[0].args
            ):  # type: ignore[union-attr]
                region.items[at] = _exit(graph, region, item.condition, item.line)
            else:
                _exits_under_conditions(graph, then)
                _exits_under_conditions(graph, otherwise)
        elif isinstance(item, Loop):
            _exits_under_conditions(graph, item.body)


def _is_exit(item: Value | If | Loop) -> bool:
    return isinstance(item, Value) and item.op == "end"


# --- walking
def walk(s: Selector, region: Region) -> None:
    """Put a region's instructions, from its end."""
    outer, s.region = s.region, region
    for item in reversed(region.items):
        if isinstance(item, Value):
            if _is_exit(item):
                _put_exit(s, item)
            else:
                s.value(item)
        elif id(item) in s.marking.nodes:
            s.flush(region)
            if isinstance(item, If):
                _if(s, item)
            else:
                _loop(s, item)
    s.region = outer


def _put_exit(s: Selector, v: Value) -> None:
    if s.guard is None:
        s.flush(s.region)
        start_block(s)
    s.line = v.line
    m = Machine(Op.EXIT, TimingClass.BRANCH, "EXIT")
    if v.args:
        test = s.test(v.args[0])
        if test is False:
            return
        m.guard = test if isinstance(test, Guard) else None
    s.put(m)


def start_block(s: Selector, depth: int | None = None) -> Block:
    """Close the current block; instructions put from now on stand before it. Returns the closed one."""
    closed = s.block
    s.blocks.append(closed)
    s.block = s.new_block(closed.depth if depth is None else depth)
    return closed


def _if(s: Selector, node: If) -> None:
    joins = [j for j in node.joins if j.id in s.lanes]
    test_needed = node.condition
    if _can_guard(s, node, joins):
        _guarded_if(s, node, joins)
        return
    line = node.line
    ends = node.then.terminated or node.otherwise.terminated
    sync = not ends and not is_uniform(test_needed) and not _meets_anyway(s)
    barrier = s.sync_depth
    s.line = line
    if sync:
        if barrier >= CONVERGENCE_BARRIERS:
            raise BuildError(
                f"kernel {s.graph.name}: more than {CONVERGENCE_BARRIERS} divergent blocks inside one another"
            )
        s.put(Machine(Op.BSYNC, TimingClass.BRANCH, "BSYNC", x=barrier))
        s.sync_depth += 1
    after = start_block(s)
    otherwise = after
    before = [] if node.otherwise.items or ends else _before_branch(s, node, joins)
    if node.otherwise.items or len(before) < len(joins):
        _copies(s, [(j, j.args[1]) for j in joins if j not in before and not node.otherwise.terminated])
        walk(s, node.otherwise)
        s.flush(node.otherwise)
        otherwise = start_block(s)
        if not node.then.terminated:
            s.line = line
            s.put(Machine(Op.BRA, TimingClass.BRANCH, "BRA", target=after))
    _copies(s, [(j, j.args[0]) for j in joins if not node.then.terminated and not _is_preset(s, j)])
    walk(s, node.then)
    s.flush(node.then)
    start_block(s)
    s.line = line
    test = s.test(test_needed)
    assert isinstance(test, Guard)
    s.put(Machine(Op.BRA, TimingClass.BRANCH, "BRA", target=otherwise, guard=test.inverted()))
    _copies(s, [(j, j.args[1]) for j in before])
    if sync:
        s.sync_depth -= 1
        s.put(Machine(Op.BSSY, TimingClass.CONTROL, "BSSY", x=barrier, target=after))


def _before_branch(s: Selector, node: If, joins: list[Value]) -> list[Value]:
    """Joins whose else-value is moved in place before the branch: constants, and what a loop in the way starts with."""
    found = []
    for j in joins:
        then, other = j.args
        if then.op == "exit":
            carry = then.args[0]
            loop = carry.owner
            if (
                isinstance(loop, Loop)
                and loop.body.parent is node.then
                and carry.args[0] is other
                and carry.id not in s.lanes
            ):
                s.lanes[carry.id] = s.use(j)
                s.preset.add(carry.id)
                found.append(j)
                continue
        if other.region is None:
            found.append(j)
    return found


def _is_preset(s: Selector, join: Value) -> bool:
    return join.args[0].op == "exit" and join.args[0].args[0].id in s.preset


def _copies(s: Selector, pairs: list[tuple[Value, Value]]) -> None:
    """Moves of values to where they are joined or carried, as if all at once."""
    targets = {id(s.use(to).reg) for to, _ in pairs}
    late, plain, first = [], [], []  # program order: first, plain, late
    for to, value in pairs:
        dst = s.use(to)
        source = s.use(value) if value.region is not None else None
        if isinstance(source, Lane) and source.reg is dst.reg and source.word == dst.word:
            continue
        if isinstance(source, Lane) and id(source.reg) in targets:
            temporary = s.register(value.type.registers)
            late.append((dst, temporary, value.type.registers))
            first.append((temporary, value))
        else:
            plain.append((dst, value))
    for dst, temporary, words in late:
        s.put(*(move(Lane(dst.reg, dst.word + k), Lane(temporary.reg, k)) for k in range(words)))
    for dst, value in (*plain, *first):
        s.copy(dst, value)


def _meets_anyway(s: Selector) -> bool:
    """True when nothing but moves comes before a convergence barrier's BSYNC, or the end, from here on."""
    block: Block | None = s.block
    code = block.code
    for _ in range(8):
        target = None
        for m in reversed(code):
            if m.copy or m.op is Op.NOP:
                continue
            if m.op is Op.BSYNC or (m.op is Op.EXIT and m.guard is None):
                return True
            if m.op is Op.BRA and m.guard is None:
                target = m.target
                break
            return False
        if target is None:
            at = s.blocks.index(block) if block in s.blocks else len(s.blocks)
            if at == 0:
                return False
            target = s.blocks[at - 1]
        block, code = target, target.code
    return False


# --- guarded ways
def _can_guard(s: Selector, node: If, joins: list[Value]) -> bool:
    if s.guard is not None:
        return False
    total = 0
    for way, side in ((node.then, 0), (node.otherwise, 1)):
        length = 0
        for item in way.items:
            if not isinstance(item, Value) or item.op in _UNGUARDED:
                return False
            if _is_exit(item) and (item is not way.items[-1] or side == 1):
                return False
            if item.id in s.marking.live or item.op in KEPT:
                length += _cost(s, item)
        if side == 0 or way.items:
            length += sum(1 for j in joins if j.args[side].region is not way)
        if length > GUARD_LIMIT:
            return False
        total += length
    return total <= GUARD_LIMIT + 2


def _cost(s: Selector, v: Value) -> int:
    """Instructions of a value, roughly."""
    if is_alias(v) or v.op == "pnot":
        return 0
    if v.op == "mul" and s.uses.get(v.id, 0) == 1:
        return 0  # part of a multiply-add, mostly
    if v.op in ("store", "atomic", "load", "madwide"):
        return 1
    return max(1, v.type.registers)


def _guarded_if(s: Selector, node: If, joins: list[Value]) -> None:
    test = s.test(node.condition)
    assert isinstance(test, Guard)
    both = bool(node.otherwise.items)
    if both:
        _guarded_way(s, node.otherwise, 1, joins, test.inverted(), in_place=False)
        _guarded_way(s, node.then, 0, joins, test, in_place=False)
        for j in joins:
            _first_write_is_whole(s, s.use(j))
        return
    _guarded_way(s, node.then, 0, joins, test, in_place=True)
    s.redirect.clear()
    restores, s.restores = s.restores, []
    for value, lane in reversed(restores):
        if lane is None:
            s.lanes.pop(value.id, None)
        else:
            s.lanes[value.id] = lane
    s.line = node.line
    _copies(s, [(j, j.args[1]) for j in joins])


def _guarded_way(s: Selector, way: Region, side: int, joins: list[Value], guard: Guard, in_place: bool) -> None:
    """One way under a guard. What a join receives is made in the join's register where that can be.

    With `in_place` the register holds the join's other value before, and what reads
    that one reads the register.
    """
    redirected: set[int] = set()
    for j in joins:
        value, other = j.args[side], j.args[1 - side]
        dst = s.use(j)
        vector = value.args[0] if value.op == "part" else None
        joined = s.joined.get((id(j.owner), vector.id)) if vector is not None and vector.region is way else None
        if joined is not None and vector is not None and s.lanes.get(vector.id, joined) == joined:
            s.lanes[vector.id] = joined
            s.merged.add(vector.id)
            continue
        if value.region is way and not is_alias(value) and value.id not in s.lanes:
            s.lanes[value.id] = dst
            s.merged.add(value.id)
            if (
                in_place
                and not _made_in(way, other)
                and other.region is not None
                and not is_alias(other)
                and other.id not in redirected
            ):
                redirected.add(other.id)
                s.redirect[value.id] = (other, dst)
        else:
            s.line = j.line
            s.copy(dst, value, guard, merge=True)
    s.guard = guard
    walk(s, way)
    s.guard = None
    s.flush(way)


def _made_in(way: Region, value: Value) -> bool:
    """True when a value is made in either way of the `If` that `way` belongs to."""
    node = way.node
    return isinstance(node, If) and value.region in (node.then, node.otherwise)


def _first_write_is_whole(s: Selector, lane: Lane) -> None:
    """When both ways write a join, the earlier write need not keep what was there."""
    for m in reversed(s.block.code):  # program order
        if m.merge and m.dst is not None and m.dst.reg is lane.reg and m.dst.word == lane.word:
            m.merge = False
            return


# --- loops
def _loop(s: Selector, node: Loop) -> None:
    carries = [c for c in node.carries if c.id in s.marking.live]
    assert node.condition is not None
    sync = not is_uniform(node.condition) and not _meets_anyway(s)
    barrier = s.sync_depth
    s.line = node.line
    if sync:
        if barrier >= CONVERGENCE_BARRIERS:
            raise BuildError(
                f"kernel {s.graph.name}: more than {CONVERGENCE_BARRIERS} divergent blocks inside one another"
            )
        s.put(Machine(Op.BSYNC, TimingClass.BRANCH, "BSYNC", x=barrier))
        s.sync_depth += 1
    after = start_block(s, s.block.depth + 1)
    test = s.test(node.condition)
    again = Machine(Op.BRA, TimingClass.BRANCH, "BRA")
    if test is not False:
        again.guard = test if isinstance(test, Guard) else None
        s.put(again)
    _copies(s, [(c, c.args[1]) for c in carries])
    walk(s, node.body)
    top = start_block(s, after.depth)
    again.target = top
    s.line = node.line
    if sync:
        s.sync_depth -= 1
    _copies(s, [(c, c.args[0]) for c in carries if c.id not in s.preset])
    if sync:
        s.put(Machine(Op.BSSY, TimingClass.CONTROL, "BSSY", x=barrier, target=after))
