"""Instruction selection: from regions of values to blocks of instructions.

Regions are walked from their end to their beginning, so that a value is only
made when an instruction wants it, and an operation that an instruction can take
in (a product into a multiply-add, a negation into an operand) never stands alone.

This file holds the frame: registers of values, operands, constants and other
leaves, joins. What each operation becomes is in the `select_*` files; the shape
of control flow is in `control`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sim.builder.instructions import (
    alu,
    load_constant,
    load_uniform,
    move,
    move_immediate,
    special_register,
    word_of,
)
from sim.builder.ir import KEPT, Graph, If, Region, Value
from sim.builder.machine import ZERO, Block, Code, Guard, Lane, Machine, Operand, VReg
from sim.builder.marking import Marking
from sim.builder.types import BOOL, F64, bits_of
from sim.isa import FLAG_UNIFORM, Op, SpecialRegister, TimingClass
from sim.program import Const, Imm

Handler = Callable[["Selector", Value, Any], None]
HANDLERS: dict[tuple[str, str], Handler] = {}  #: by operation and family
ALIASES = frozenset(("bitcast", "part", "word", "exit"))  #: values that are (part of) another value's register
SHARED_WINDOW = 0  #: where shared arrays start in the block's window
DESCRIPTOR = Const(0, 0x208)


def handles(*ops: str, family: str = "") -> Callable[[Handler], Handler]:
    """Register a function that makes the instructions of these operations (of one family of types: `family_of`)."""

    def register(function: Handler) -> Handler:
        for op in ops:
            HANDLERS[op, family] = function
        return function

    return register


@dataclass(eq=False, slots=True)
class Leaf:
    """A constant or the like that some instruction wants: where it was made, so that it can be moved up."""

    lane: Lane
    make: Callable[[Lane], list[Machine]]
    region: Region
    made: list[Machine] = field(default_factory=list)


class Waits:
    """Waits for products of warpgroups in the block at hand, nearest last: for whom registers are kept until them."""

    def __init__(self) -> None:
        self._block: Block | None = None
        self._waits: list[list[Any]] = []  # instruction, groups that must come between to make it surely wait for them

    def _of(self, block: Block) -> list[list[Any]]:
        if block is not self._block:
            self._block, self._waits = block, []
        return self._waits

    def add(self, block: Block, wait: Machine, groups_left: int) -> None:
        self._of(block).append([wait, groups_left + 1])

    def commit(self, block: Block) -> None:
        """A group ends here."""
        for entry in self._of(block):
            entry[1] -= 1

    def keep(self, block: Block, lane: Lane, words: int) -> None:
        """Keep registers until the first wait after which a product that is put now has read them."""
        for wait, groups in reversed(self._of(block)):
            if groups <= 0:
                wait.keeps += tuple(Lane(lane.reg, lane.word + k) for k in range(words))
                return


class Selector:
    """Makes machine code of a graph. Instructions are put in reverse order until `finish`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.code = Code([], [], graph.lines, graph.registers, graph.local_bytes)
        self.marking = Marking(graph)
        self.uses = self.marking.uses
        self.lanes: dict[int, Lane] = {}  # value number -> register
        self.guards: dict[int, Guard] = {}  # value number -> predicate
        self.merged: set[int] = set()  # values that are written over another one, under a guard
        self.done: set[int] = set()  # values made out of turn
        self.kept: list[tuple[Lane, Value]] = []  # moves to put before the next instruction
        self.same: dict[int, Lane] = {}  # registers of leaves that turned out to be another's
        self.redirect: dict[int, tuple[Value, Lane]] = {}
        self.preset: set[int] = set()  # carries that start in place, before the branch around their loop
        self.restores: list[tuple[Value, Lane | None]] = []
        self.joined: dict[Any, Lane] = {}  # (If, vector) -> where the joins of its parts lie
        self.waits = Waits()
        self.runs: dict[int, list[Lane]] = {}  # uniform registers for operands, by their number
        self.also: dict[int, VReg] = {}  # logical values whose "some bit is set" is wanted as a predicate
        self.block = self.new_block(0)
        self.guard: Guard | None = None
        self.line = -1
        self.region = graph.root
        self.sync_depth = 0
        self._wanted: dict[Region, dict[Any, Leaf]] = {}
        self._made: dict[Any, list[Leaf]] = {}
        self.blocks: list[Block] = []
        self.rare_blocks: list[Block] = []  # to stand behind all others

    # --- blocks and instructions
    def new_block(self, depth: int) -> Block:
        block = Block(len(self.code.blocks), depth=depth)
        self.code.blocks.append(block)
        return block

    def put(self, *instructions: Machine) -> None:
        """Put instructions, given in order, before what has been put."""
        for m in reversed(instructions):
            m.line = self.line
            if self.guard is not None and m.guard is None:
                m.guard = self.guard
            self.block.code.append(m)

    def register(self, width: int = 1, kind: str = "R") -> Lane:
        return Lane(self.code.new(kind, width))

    def predicate(self) -> VReg:
        return self.code.new("P")

    # --- sources
    def use(self, v: Value) -> Any:
        """A register that holds `v`; zeros are RZ."""
        if v.region is None:
            return self._use_leaf(v)
        if is_alias(v):
            if v.op in ("bitcast", "half", "exit"):
                return self.use(v.args[0])
            return word_of(self.use(v.args[0]), v.attr * (v.type.registers if v.op == "part" else 1))
        lane = self.lanes.get(v.id)
        if lane is None:
            kind = "U" if v.op == "uniform" else "R"
            lane = self.lanes[v.id] = self._part_of_joined(v) or self.register(width_of(v), kind)
        return lane

    def _part_of_joined(self, v: Value) -> Lane | None:
        """The place of a join of a vector's part: joins of all parts lie side by side, and the vector is made there."""
        if (
            v.op != "join"
            or v.args[0].op != "part"
            or not isinstance(v.owner, If)
            or v.args[0].region is not v.owner.then
        ):
            return None
        vector = v.args[0].args[0]
        key = (id(v.owner), vector.id)
        joined = self.joined.get(key)
        if joined is None:
            joined = self.joined[key] = self.register(width_of(vector))
        return Lane(joined.reg, v.args[0].attr * v.type.registers)

    def flexible(self, v: Value) -> Operand:
        """As `use`, or an immediate or a uniform register where that saves an instruction."""
        v = self.plain(v)
        if v.region is None and v.type.registers == 1:
            if v.op == "const":
                bits = bits_of(v.attr, v.type)
                return Imm(bits, v.type.is_float) if bits else ZERO
            if v.op == "cbank" and isinstance(v.attr, int) and not self.has_leaf(v):
                return self.uniform(v)
            if v.op == "shared_base":
                return self.shared_base()
        return self.use(v)

    def plain(self, v: Value) -> Value:
        """`v` without changes of its type that keep the bits."""
        while v.op == "bitcast" and v.region is not None:
            v = v.args[0]
        return v

    def is_flexible(self, v: Value) -> bool:
        """True when `flexible` would not give an R register."""
        v = self.plain(v)
        if v.region is not None or v.type.registers != 1:
            return False
        return v.op in ("const", "shared_base") or (
            v.op == "cbank" and isinstance(v.attr, int) and not self.has_leaf(v)
        )

    def two(self, a: Value, b: Value, commutes: bool = True) -> tuple[Any, Operand]:
        """Operands A (a register) and B (anything) of an instruction."""
        if commutes and self.is_flexible(a) and not self.is_flexible(b):
            a, b = b, a
        return self.use(a), self.flexible(b)

    def three(self, a: Value, b: Value, c: Value) -> tuple[Any, Operand, Operand]:
        """Operands of a multiply-add: one of B and C may be other than a register."""
        if self.is_flexible(a) and not self.is_flexible(b):
            a, b = b, a
        if self.is_flexible(c) and not is_zero(c):
            return self.use(a), self.use(b), self.flexible(c)
        return self.use(a), self.flexible(b), self.use(c)

    def test(self, v: Value) -> Guard | bool:
        """A predicate that holds `v`, or a constant."""
        if v.op == "const":
            return bool(v.attr)
        if v.op == "undef":
            return False
        if v.op == "pnot":
            inner = self.test(v.args[0])
            return not inner if isinstance(inner, bool) else inner.inverted()
        guard = self.guards.get(v.id)
        if guard is None:
            guard = self.guards[v.id] = Guard(self.predicate(), _inverted_by_nature(v))
        return guard

    def single(self, v: Value) -> bool:
        """True when `v` has one use and is made in the region that is being walked, so that its user may take it in."""
        return v.region is self.region and self.uses.get(v.id, 0) == 1 and v.id not in self.lanes

    def fusable(self, v: Value) -> bool:
        """True when `v` is made in this region, so that a multiply-add may contain it."""
        return v.region is self.region

    # --- leaves
    def _use_leaf(self, v: Value) -> Any:
        if v.op == "undef":
            return ZERO
        if v.op == "const":
            bits = bits_of(v.attr, v.type)
            if bits == 0:
                return ZERO
            words = [bits >> (32 * k) & 0xFFFFFFFF for k in range(v.type.registers)]
            key: Any = ("imm", *words)
            floating = v.type.is_float and v.type is not F64
            return self.leaf(
                key,
                "R",
                len(words),
                lambda d: [move_immediate(Lane(d.reg, k), w, floating) for k, w in enumerate(words)],
            )
        if v.op == "shared_base":
            base = self.shared_base()
            return self.leaf(("base",), "R", 1, lambda d: [move(d, base)])
        if v.op == "sreg":
            return self.leaf((v.op, v.attr), "R", 1, lambda d: [special_register(d, v.attr)])
        offset, storage = v.attr if isinstance(v.attr, tuple) else (v.attr, None)
        width = v.type.registers
        return self.leaf((v.op, offset, width), "R", width, lambda d: [load_constant(d, offset, width, storage)])

    def has_leaf(self, v: Value) -> bool:
        """True when a register already holds (further down) this constant-bank word."""
        key = ("cbank", v.attr, v.type.registers)
        home = self._home()
        return key in self._wanted.get(home, ()) or any(home.encloses(leaf.region) for leaf in self._made.get(key, ()))

    def uniform(self, v: Value) -> Lane:
        """A constant-bank word in a uniform register."""
        width = v.type.registers
        return self.leaf(("uldc", v.attr, width), "U", width, lambda d: [load_uniform(d, v.attr, width)])

    def wide_uniform(self, v: Value) -> Lane | None:
        """A 64-bit constant-bank word in a uniform register, where an R one is not there already."""
        v = self.plain(v)
        if v.region is None and v.op == "cbank" and v.type.registers == 2 and not self.has_leaf(v):
            return self.uniform(v)
        return None

    def descriptor(self) -> None:
        """The memory descriptor that every global access names; compilers load it once."""
        self.leaf(("desc",), "U", 2, lambda d: [load_uniform(d, DESCRIPTOR.offset, 2)], self.graph.root)

    def shared_base(self) -> Lane:
        """The address of the block's shared memory: its window in the cluster's."""

        def make(d: Lane) -> list[Machine]:
            cta, window = self.register(1, "U"), self.register(1, "U")
            last = alu(Op.LEA, "ULEA", d, cta, window, cls=TimingClass.UNIFORM, x=24, flags=FLAG_UNIFORM)
            return [special_register(cta, SpecialRegister.CGACTAID), move(window, Imm(SHARED_WINDOW)), last]

        return self.leaf(("shared",), "U", 1, make)

    def _home(self) -> Region:
        """Where leaves that are wanted here are made: in this region, or before the loops around it."""
        region = self.region
        while region.parent is not None and (region.is_loop or (self.guard is not None and region is self.region)):
            region = region.parent
        return region

    def leaf(
        self, key: Any, kind: str, width: int, make: Callable[[Lane], list[Machine]], home: Region | None = None
    ) -> Lane:
        """The register of a leaf, which is made in its region before all its uses, behind the last exit or nest."""
        region = self._home() if home is None else home
        around: Region | None = region
        while around is not None:
            found = self._wanted.get(around, {}).get(key)
            if found is not None:
                return found.lane
            around = around.parent
        leaf = Leaf(self.register(width, kind), make, region)
        for old in [old for old in self._made.get(key, ()) if region.encloses(old.region)]:
            for m in old.made:
                m.op, m.text, m.dst, m.nd, m.na, m.nb = Op.NOP, "", None, 0, 0, 0  # made further up now
            self._made[key].remove(old)
            self.same[old.lane.reg.id] = leaf.lane
        self._wanted.setdefault(region, {})[key] = leaf
        return leaf.lane

    def flush(self, region: Region) -> None:
        """Make what is wanted of `region`'s leaves, here."""
        guard, self.guard = self.guard, None
        while self._wanted.get(region):
            key, leaf = self._wanted[region].popitem()
            leaf.made = leaf.make(leaf.lane)
            self.put(*leaf.made)
            self._made.setdefault(key, []).append(leaf)
        self.guard = guard

    # --- values
    def value(self, v: Value) -> None:
        """Put the instructions of one value, if anything wants it."""
        wanted = v.id in self.lanes or v.id in self.guards or v.op in KEPT or v.id in self.also
        if not wanted or v.id in self.done or v.id not in self.marking.live or is_alias(v) or v.op == "pnot":
            return
        self.line = v.line
        redirect = self.redirect.pop(v.id, None)
        if redirect is not None:  # from here up, the old value of a joined variable is read where it is joined
            self.restores.append((redirect[0], self.lanes.get(redirect[0].id)))
            self.lanes[redirect[0].id] = redirect[1]
        dst: Any = self.guards.get(v.id) if v.type is BOOL else self.lanes.get(v.id)
        before = len(self.block.code)
        handler = HANDLERS.get((v.op, family_of(v))) or HANDLERS[v.op, ""]
        handler(self, v, dst)
        if v.id in self.merged and isinstance(dst, Lane):
            for m in self.block.code[before:]:
                if m.dst is not None and m.dst.reg is dst.reg:
                    m.merge = True

    def copy(self, dst: Lane, v: Value, guard: Guard | None = None, merge: bool = False) -> None:
        """Put moves of `v` into `dst`."""
        moves = []
        source = self.flexible(v) if v.type.registers == 1 else self.use(v)
        for k in range(v.type.registers):
            m = move(Lane(dst.reg, dst.word + k), word_of(source, k))
            m.guard, m.merge = guard, merge
            moves.append(m)
        self.put(*moves)


def tests_bits(v: Value) -> bool:
    """True for a comparison of a logical result with zero, which LOP3 does by itself."""
    return (
        v.op == "cmp"
        and v.attr in ("eq", "ne")
        and is_zero(v.args[1])
        and v.args[0].op in ("and", "or", "xor")
        and v.args[0].type.bits == 32
    )


def family_of(v: Value) -> str:
    """Which handler an operation has: `f` of floats, `w` of 64-bit integers, else the empty string."""
    t = v.args[0].type if v.op == "cmp" else v.type
    return "f" if t.is_float else "w" if t.is_int and t.bits == 64 else ""


def _inverted_by_nature(v: Value) -> bool:
    """True when the instruction of a condition gives its opposite: LOP3's predicate says that some bit is set."""
    return tests_bits(v) and v.attr == "eq"


def is_alias(v: Value) -> bool:
    """True for a value that is another value's register, or a part of one."""
    return v.op in ALIASES or (v.op == "half" and v.attr == 0)


def is_zero(v: Value) -> bool:
    return v.op == "const" and bits_of(v.attr, v.type) == 0


def width_of(v: Value) -> int:
    """Registers that a value takes, vectors included."""
    if v.op == "load":
        return max(1, v.attr.width * v.type.registers)
    if v.op == "ldsm":
        return int(v.attr.extra[0])
    if v.op == "mma":
        return 4
    if v.op == "fragment":
        return len(v.args)
    return v.type.registers
