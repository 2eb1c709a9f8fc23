"""The builder's intermediate form: values in nested regions.

A `Value` is one operation and its result (static single assignment). A `Region`
is a list of values and nested `If` and `Loop` nodes, in order. What crosses a
nest's border is explicit:

* `join` values of an `If`: one value for each way, used after it;
* `carry` values of a `Loop`: an initial value and the next iteration's;
  `exit` values are what a carry ends with, used after the loop.

Operations (`Value.op`), arguments and `attr`:

    const                     attr: Python value            undef
    cbank                     attr: byte offset in bank 0   sreg   attr: SpecialRegister
    shared_base               address of the block's shared memory
    add sub mul min max and or xor shl shr neg not abs fma mulhi madwide select
    cmp                       attr: "lt" ...                pand por pxor pnot (predicates)
    cast bitcast              f2i i2f frnd (attr: rounding) mufu (attr: MufuFunction)
    estimate                  a mufu that belongs to one division: never shared or moved, as in CUDA's expansion
    popc flo brev shf fchk    word (attr: 0 low, 1 high)    pair (low, high)
    part (attr: index) of a vector                          half packhalf packfloat (16-bit floats in a word)
    fragment (words) a vector of them                       mul's attr: a rounding, for a product that stays by itself
    load store atomic ldsm ldgsts shfl vote mma             attr: a record of this file
    commit wait bar warpsync membar end clock               effects without memory operands (end: the thread ends)
    uniform                   the first active lane's value, in a uniform register

Of Hopper's asynchronous units:

    mbarrier tma bulk wgmma   attr: a record of this file
    sums                      accumulators of wgmma; attr: True for zeros, else what they hold is undefined
    take put (attr: word)     one word of accumulators, read and replaced, in its place among the products
    cluster_arrive cluster_wait  the barrier of the block's cluster
    fence_async wgmma_fence wgmma_commit wgmma_wait (attr: groups left) tma_commit elect
    setmaxreg                 attr: registers
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sim.builder.types import Type
from sim.isa import AtomicOp, MbarrierOp, Space

#: operations of asynchronous units that run even when nothing uses their result
ASYNCHRONOUS = frozenset(
    "mbarrier tma bulk tma_commit fence_async wgmma wgmma_fence wgmma_commit wgmma_wait setmaxreg".split()
    + "cluster_arrive cluster_wait".split()
)
EFFECTS = ASYNCHRONOUS | frozenset(
    "store atomic ldsm ldgsts commit wait bar warpsync membar end shfl vote mma clock load estimate".split()
    + "elect sums take put".split()
)  #: operations that stay in their region, in order, and are never merged by value number
KEPT = ASYNCHRONOUS | frozenset("store atomic ldgsts commit wait bar warpsync membar end clock".split())
#: operations that run even when nothing uses their result
ORDERING = (ASYNCHRONOUS - {"wgmma"}) | frozenset(("bar", "membar", "warpsync"))
#: operations after which loads may see what others wrote


class Value:
    """One operation. Compare by identity."""

    __slots__ = ("args", "attr", "id", "line", "nonneg", "op", "owner", "region", "type", "uniform")

    def __init__(
        self, op: str, type_: Type, args: tuple[Value, ...], attr: Any, region: Region | None, line: int
    ) -> None:
        self.op = op
        self.type = type_
        self.args = args
        self.attr = attr
        self.region = region
        self.line = line
        self.id = -1
        self.nonneg = False  #: known to be >= 0
        self.uniform = False  #: the same in all lanes of a warp
        self.owner: If | Loop | None = None  #: of a join, carry or exit value

    @property
    def is_const(self) -> bool:
        return self.op == "const"

    def __repr__(self) -> str:
        args = ", ".join(f"%{a.id}" for a in self.args)
        attr = "" if self.attr is None else f" {self.attr}"
        return f"%{self.id} = {self.op}.{self.type}({args}){attr}"


class Region:
    """Values and nested nodes in order."""

    __slots__ = ("depth", "items", "known", "node", "parent", "terminated")

    def __init__(self, parent: Region | None = None, node: If | Loop | None = None) -> None:
        self.parent = parent
        self.node = node
        self.items: list[Value | If | Loop] = []
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.known: dict[Any, Value] = {}  #: value numbers
        self.terminated = False  #: all threads that came here have exited

    @property
    def is_loop(self) -> bool:
        return isinstance(self.node, Loop)

    def encloses(self, other: Region | None) -> bool:
        """True when `other` is this region or inside it."""
        while other is not None and other.depth > self.depth:
            other = other.parent
        return other is self


class If:
    """Two ways. `joins[k].args` is (value of the then-way, value of the else-way).

    With `rare` the then-way is hardly ever taken and is put out of the way.
    """

    __slots__ = ("condition", "joins", "line", "otherwise", "rare", "then")

    def __init__(self, condition: Value, region: Region, line: int) -> None:
        self.condition = condition
        self.then = Region(region, self)
        self.otherwise = Region(region, self)
        self.joins: list[Value] = []
        self.rare = False
        self.line = line


@dataclass(slots=True)
class Counted:
    """A `for` loop before it is lowered: `index` runs from `start` by `step` while it has not reached `stop`."""

    index: Value
    start: Value
    stop: Value
    step: Value
    unroll: int | bool | None


class Loop:
    """A loop. With `counted`, the body may run zero times; else it runs, then repeats while `condition` holds.

    `carries[k].args` is (initial value, next value); `exits[k]` is the final value.
    """

    __slots__ = ("body", "carries", "condition", "counted", "exits", "line", "note")

    def __init__(self, region: Region, line: int) -> None:
        self.body = Region(region, self)
        self.carries: list[Value] = []
        self.exits: list[Value] = []
        self.condition: Value | None = None
        self.counted: Counted | None = None
        self.line = line
        self.note: Any = (
            None  #: of a lowered counted loop: (index carry, step, rounds a time, condition reads the index)
        )


@dataclass(frozen=True, slots=True)
class Access:
    """A memory access. Before addresses are lowered `args[0]` is an element index, after it an address."""

    space: Space
    base: Value | None  #: 64-bit pointer of a global array
    base_bytes: int  #: byte offset of a shared array in the block's shared memory, of a local one in the thread's
    storage: Type
    width: int = 1  #: elements
    offset: int = 0  #: bytes, once lowered
    lowered: bool = False
    array: str = ""
    operation: AtomicOp | None = None
    extra: Any = None  #: ldsm: (count, transposed); ldgsts: bytes
    barrier: MbarrierOp | None = None  #: of an mbarrier

    @property
    def bytes(self) -> int:
        return self.width * self.storage.bytes


@dataclass(frozen=True, slots=True)
class MmaAttr:
    """A tensor operation: shape's name, operand and accumulator types."""

    shape: str
    a: Type
    c: Type


@dataclass(frozen=True, slots=True)
class BarrierAttr:
    """A barrier of the block. Without a `number` the first argument is it; `threads` 0: all of the block."""

    arrives: bool  #: and does not wait
    number: int | None
    threads: int


@dataclass(frozen=True, slots=True)
class CopyAttr:
    """A copy by TMA: arguments are shared address, mbarrier (of a load), coordinates from the innermost.

    A run of bytes (`rank` 0) has its place in global memory first (`access`; lowered: an address), and the number of
    its 16-byte units last. A `multicast` has its blocks in the upper half of that word, and of a box as the last one.
    """

    kind: str  #: load, store, prefetch, reduce
    rank: int
    map_address: int = 0
    access: Access | None = None
    multicast: bool = False
    operation: AtomicOp | None = None  #: of a reduction
    element: Type | None = None  #: likewise


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What is known of the descriptor of a matrix in shared memory; the rest of its low word is an argument."""

    units: int  #: 16-byte units from the matrix's start
    high: int  #: the high word
    mn_major: bool


@dataclass(frozen=True, slots=True)
class WgmmaAttr:
    """A warpgroup's product of 64 rows and `columns`.

    Arguments: sums; low word of A's descriptor, or its four registers; low word of B's; a condition to add, if `add`
    is None.
    """

    columns: int
    a: Type
    b: Type
    sum: Type
    a_descriptor: Descriptor | None
    b_descriptor: Descriptor
    add: bool | None
    commit: bool = False


@dataclass
class Graph:
    """A traced kernel."""

    name: str
    root: Region
    shared_bytes: int = 0  #: static
    local_bytes: int = 0  #: a thread, of its arrays
    registers: int = 0  #: a thread, that a launch gives; 0: what the code needs
    count: int = 0
    lines: list[Any] = field(default_factory=list)

    def walk(self) -> Iterator[Value | If | Loop]:
        """All items, in order, nests first seen from outside."""
        yield from walk(self.root)


def walk(region: Region) -> Iterator[Value | If | Loop]:
    """All items of a region and of the regions inside it, in order."""
    for item in region.items:
        yield item
        if isinstance(item, If):
            yield from walk(item.then)
            yield from walk(item.otherwise)
        elif isinstance(item, Loop):
            yield from walk(item.body)


def dump(region: Region, indent: str = "") -> str:
    """The region as text, for people."""
    out = []
    for item in region.items:
        if isinstance(item, Value):
            out.append(f"{indent}{item!r}")
        elif isinstance(item, If):
            out.append(f"{indent}if %{item.condition.id}:")
            out.append(dump(item.then, indent + "    "))
            if item.otherwise.items:
                out += [f"{indent}else:", dump(item.otherwise, indent + "    ")]
            out += [f"{indent}  {j!r}" for j in item.joins]
        else:
            head = "loop" if item.counted is None else f"for %{item.counted.index.id}"
            out.append(f"{indent}{head} {[repr(c) for c in item.carries]}:")
            out.append(dump(item.body, indent + "    "))
            if item.condition is not None:
                out.append(f"{indent}while %{item.condition.id}")
            out += [f"{indent}  {e!r}" for e in item.exits]
    return "\n".join(s for s in out if s)
