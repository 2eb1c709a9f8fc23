"""Control flow: regions become blocks with branches, convergence barriers and guarded instructions.

Regions are walked from their end (see `select`). A short way of an `If` becomes
guarded instructions; a longer one is branched around. Where lanes of a warp may
go different ways, BSSY and BSYNC bring them together again, unless what follows
is the end of an outer such part, or of the kernel.
"""

from __future__ import annotations

from sim.builder import (
    select_async,
    select_choice,
    select_convert,
    select_float,
    select_integer,
    select_logic,
    select_memory,
    select_wide,
)
from sim.builder.errors import BuildError
from sim.builder.guards import can_guard, guarded_if
from sim.builder.instructions import stack_pointer
from sim.builder.ir import Graph, If, Loop, Region, Value
from sim.builder.machine import Block, Code, Guard, Lane, Machine
from sim.builder.marking import is_uniform, mark_uniform
from sim.builder.moves import put_copies
from sim.builder.select import Selector
from sim.builder.tails import flatten_tails, is_exit
from sim.isa import CONVERGENCE_BARRIERS, Op, TimingClass

#: Imported for the handlers that they register.
HANDLER_FILES = (
    select_async,
    select_choice,
    select_convert,
    select_float,
    select_integer,
    select_logic,
    select_memory,
    select_wide,
)


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
    s.put(stack_pointer())
    s.blocks.append(s.block)
    s.blocks = s.rare_blocks + s.blocks
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
                m.keeps = tuple(renamed(lane) for lane in m.keeps)  # type: ignore[misc]


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


# --- walking
def walk(s: Selector, region: Region) -> None:
    """Put a region's instructions, from its end."""
    outer, s.region = s.region, region
    for item in reversed(region.items):
        if isinstance(item, Value):
            if is_exit(item):
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
    if can_guard(s, node, joins):
        guarded_if(s, node, joins, walk)
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
        put_copies(s, [(j, j.args[1]) for j in joins if j not in before and not node.otherwise.terminated])
        walk(s, node.otherwise)
        s.flush(node.otherwise)
        otherwise = start_block(s)
        if not node.then.terminated and not node.rare:
            s.line = line
            s.put(Machine(Op.BRA, TimingClass.BRANCH, "BRA", target=after))
    inside = len(s.blocks)
    if node.rare and not node.then.terminated:
        s.line = line
        s.put(Machine(Op.BRA, TimingClass.BRANCH, "BRA", target=after))
    put_copies(s, [(j, j.args[0]) for j in joins if not node.then.terminated and not _is_preset(s, j)])
    walk(s, node.then)
    s.flush(node.then)
    top = start_block(s)
    s.line = line
    if node.rare:
        s.rare_blocks += s.blocks[inside:]
        del s.blocks[inside:]
        s.put(Machine(Op.BRA, TimingClass.BRANCH, "BRA", target=top))
    test = s.test(test_needed)
    assert isinstance(test, Guard)
    s.put(Machine(Op.BRA, TimingClass.BRANCH, "BRA", target=otherwise, guard=test.inverted()))
    put_copies(s, [(j, j.args[1]) for j in before])
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


def _meets_anyway(s: Selector) -> bool:
    """True when nothing but moves comes before a convergence barrier's BSYNC, or the end, from here on."""
    block = s.block
    code = block.code
    for _ in range(8):
        target: Block | None = None
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
    put_copies(s, [(c, c.args[1]) for c in carries])
    walk(s, node.body)
    top = start_block(s, after.depth)
    again.target = top
    s.line = node.line
    if sync:
        s.sync_depth -= 1
    put_copies(s, [(c, c.args[0]) for c in carries if c.id not in s.preset])
    if sync:
        s.put(Machine(Op.BSSY, TimingClass.CONTROL, "BSSY", x=barrier, target=after))
