"""Selection of integer arithmetic, logic, comparisons and predicates."""

from __future__ import annotations

from typing import Any

from sim.builder.ir import Value
from sim.builder.machine import ZERO, Guard, Lane, Machine, Operand, VReg
from sim.builder.select import HANDLERS, Selector, handles, is_alias, is_zero, tests_bits, word_of
from sim.builder.types import BOOL, I32, U32, bits_of
from sim.isa import (
    FLAG_EXTENDED,
    FLAG_SIGNED,
    SMOD_NEG_A,
    SMOD_NEG_B,
    SMOD_NEG_C,
    SMOD_NOT_A,
    SMOD_NOT_B,
    BoolOp,
    Compare,
    Op,
    ShiftMode,
    TimingClass,
)
from sim.program import Imm

_NEG = (SMOD_NEG_A, SMOD_NEG_B, SMOD_NEG_C)
COMPARES = {"lt": Compare.LT, "eq": Compare.EQ, "le": Compare.LE, "gt": Compare.GT, "ne": Compare.NE, "ge": Compare.GE}
COMPARES |= {k + "u": Compare(v | 8) for k, v in COMPARES.items()}


def alu(op: Op, text: str, dst: Lane | None, a: Any = None, b: Any = None, c: Any = None, **more: Any) -> Machine:
    """An integer instruction of one word."""
    cls = TimingClass.IMAD if op is Op.IMAD else TimingClass.ALU
    return Machine(
        op, more.pop("cls", cls), text, dst, more.pop("nd", 1 if dst is not None else 0), a, b, c,
        int(a is not None), int(b is not None), int(c is not None), **more,
    )  # fmt: skip


# --- sums and products of 32 bits
@handles("add", "sub", "neg")
def _sum(s: Selector, v: Value, dst: Lane) -> None:
    if v.type.is_float:
        HANDLERS["float:" + v.op](s, v, dst)
    elif v.type.bits == 64:
        _wide_sum(s, v, dst)
    elif v.op == "neg" or not _multiply_add(s, v, dst):
        _add3(s, v, dst)


def _multiply_add(s: Selector, v: Value, dst: Lane) -> bool:
    """IMAD or LEA for a sum with a product in it."""
    for at in (1, 0):
        product, other = v.args[at], v.args[1 - at]
        if product.op != "mul" or not s.single(product):
            continue
        minus = v.op == "sub"
        a, b = product.args
        if minus and at == 1:
            if not b.is_const:
                continue
            factor: int | None = -b.attr
        else:
            factor = b.attr if b.is_const else None
        if factor is not None and factor > 0 and factor & (factor - 1) == 0 and not (minus and at == 0):
            s.put(alu(Op.LEA, "LEA", dst, s.use(a), s.flexible(other), x=factor.bit_length() - 1))
            return True
        smod = SMOD_NEG_C if minus and at == 0 else 0
        if factor is not None:
            s.put(alu(Op.IMAD, "IMAD", dst, s.use(a), Imm(factor & 0xFFFFFFFF), s.use(other), smod=smod))
        else:
            x, y, z = s.three(a, b, other)
            s.put(alu(Op.IMAD, "IMAD", dst, x, y, z, smod=smod))
        return True
    return False


def _add3(s: Selector, v: Value, dst: Lane) -> None:
    """IADD3 of up to three terms."""
    terms = _expand(v, 1)
    for at in (0, 1):
        if at < len(terms) and len(terms) < 3:
            sign, t = terms[at]
            if t.op in ("add", "sub", "neg") and s.single(t) and not _has_product(s, t):
                more = _expand(t, sign)
                if len(terms) - 1 + len(more) <= 3:
                    terms[at : at + 1] = more
    terms.sort(key=lambda term: s.is_flexible(term[1]))
    operands: list[Operand] = []
    smod = 0
    free = True
    for sign, t in terms:
        if s.is_flexible(t) and free and operands:
            operands.append(s.flexible(t))
            free = False
        else:
            operands.append(s.use(t))
        if sign < 0:
            smod |= _NEG[len(operands) - 1]
    while len(operands) < 3:
        operands.append(ZERO)
    s.put(alu(Op.IADD3, "IADD3", dst, *operands, smod=smod))


def _expand(v: Value, sign: int) -> list[tuple[int, Value]]:
    if v.op == "neg":
        return [(-sign, v.args[0])]
    return [(sign, v.args[0]), (sign if v.op == "add" else -sign, v.args[1])]


def _has_product(s: Selector, v: Value) -> bool:
    return any(a.op == "mul" and s.single(a) for a in v.args)


@handles("mul")
def _product(s: Selector, v: Value, dst: Lane) -> None:
    if v.type.is_float:
        HANDLERS["float:mul"](s, v, dst)
        return
    a, b = v.args
    power = b.attr.bit_length() - 1 if b.is_const and b.attr > 0 and b.attr & (b.attr - 1) == 0 else None
    if v.type.bits == 64:
        _wide_product(s, v, dst, power)
    elif power is not None:
        s.put(alu(Op.SHF, "SHF.L.U32", dst, s.use(a), Imm(power), ZERO))
    else:
        x, y = s.two(a, b)
        s.put(alu(Op.IMAD, "IMAD", dst, x, y, ZERO))


@handles("mulhi")
def _high_product(s: Selector, v: Value, dst: Lane) -> None:
    a, b = s.two(*v.args)
    signed = v.type is I32
    s.put(alu(Op.IMAD_HI, "IMAD.HI" + ("" if signed else ".U32"), dst, a, b, ZERO, flags=FLAG_SIGNED if signed else 0, cls=TimingClass.IMAD_WIDE))


@handles("madwide")
def _wide_multiply_add(s: Selector, v: Value, dst: Lane) -> None:
    a, b, c = v.args
    _put_wide(s, dst, a, b, c, bool(v.attr))


def _put_wide(s: Selector, dst: Lane, a: Value, b: Value, c: Value, unsigned: bool) -> None:
    """IMAD.WIDE: a * b + c."""
    if s.is_flexible(a) and not s.is_flexible(b):
        a, b = b, a
    x, y = s.use(a), s.flexible(b)
    wide = _wide_uniform(s, c) if isinstance(y, Lane) and y.reg.kind == "R" else None
    z = ZERO if is_zero(c) else wide if wide is not None else s.use(c)
    m = alu(Op.IMAD_WIDE, "IMAD.WIDE" + (".U32" if unsigned else ""), dst, x, y, z, cls=TimingClass.IMAD_WIDE, flags=0 if unsigned else FLAG_SIGNED)
    m.nd = m.nc = 2
    s.put(m)


def _wide_uniform(s: Selector, v: Value) -> Lane | None:
    """A 64-bit constant-bank word in a uniform register, where an R one is not there already."""
    v = s.plain(v)
    if v.region is None and v.op == "cbank" and not s.has_leaf(v):
        return s.uniform(v)
    return None


# --- 64 bits
def _pair(s: Selector, v: Value) -> tuple[Any, Any]:
    """Low and high word of a 64-bit operand; constants as immediates."""
    if v.is_const:
        bits = bits_of(v.attr, v.type)
        words = [bits & 0xFFFFFFFF, bits >> 32]
        return tuple(Imm(w) if w else ZERO for w in words)  # type: ignore[return-value]
    wide = _wide_uniform(s, v)
    lane = wide if wide is not None else s.use(v)
    return lane, word_of(lane, 1)


def _wide_sum(s: Selector, v: Value, dst: Lane) -> None:
    if v.op == "add" and (_wide_lea(s, v, dst) or _wide_multiply_sum(s, v, dst) or _extended_sum(s, v, dst)):
        return
    a, b = (None, v.args[0]) if v.op == "neg" else v.args
    if a is not None and (a.is_const or s.plain(a).op == "cbank") and v.op == "add":
        a, b = b, a
    low_b, high_b = _pair(s, b)
    low_a, high_a = (ZERO, ZERO) if a is None or is_zero(a) else (s.use(a), word_of(s.use(a), 1))
    carry = s.predicate()
    minus = v.op != "add"
    s.put(
        alu(Op.IADD3, "IADD3", dst, low_a, low_b, ZERO, smod=SMOD_NEG_B if minus else 0, pd=carry),
        alu(
            Op.IADD3, "IADD3.X", Lane(dst.reg, dst.word + 1), high_a, high_b, ZERO,
            smod=SMOD_NOT_B if minus else 0, flags=FLAG_EXTENDED, pa=Guard(carry),
        ),
    )  # fmt: skip


def _wide_multiply_sum(s: Selector, v: Value, dst: Lane) -> bool:
    """IMAD.WIDE for a wide product plus a 64-bit value."""
    for at in (0, 1):
        product, other = s.plain(v.args[at]), v.args[1 - at]
        if product.op == "madwide" and is_zero(product.args[2]) and s.single(product):
            a, b, _ = product.args
            _put_wide(s, dst, a, b, other, bool(product.attr))
            return True
    return False


def _extended_sum(s: Selector, v: Value, dst: Lane) -> bool:
    """A 64-bit value plus a 32-bit one extended by its sign, without making the extended one."""
    for at in (0, 1):
        wide, other = s.plain(v.args[at]), v.args[1 - at]
        if wide.op != "cast" or wide.args[0].type.bits != 32 or not wide.args[0].type.is_int or not s.single(wide):
            continue
        narrow, carry = wide.args[0], s.predicate()
        low, high = _pair(s, other)
        x = s.use(narrow)
        if narrow.nonneg or narrow.type is not I32:
            top = alu(Op.IADD3, "IADD3.X", word_of(dst, 1), ZERO, high, ZERO, flags=FLAG_EXTENDED, pa=Guard(carry))
        else:
            top = alu(Op.LEA_HI, "LEA.HI.X.SX32", word_of(dst, 1), x, high, x=1, pa=Guard(carry), flags=FLAG_EXTENDED | FLAG_SIGNED)
        s.put(alu(Op.IADD3, "IADD3", dst, x, low, ZERO, pd=carry), top)
        return True
    return False


def _wide_lea(s: Selector, v: Value, dst: Lane) -> bool:
    """LEA and LEA.HI.X for a scaled 64-bit index on a base."""
    for at in (1, 0):
        product, base = v.args[at], v.args[1 - at]
        if product.op != "mul" or not s.single(product) or not product.args[1].is_const:
            continue
        factor = product.args[1].attr
        if factor <= 0 or factor & (factor - 1):
            continue
        index, shift = product.args[0], factor.bit_length() - 1
        low_base, high_base = _pair(s, base)
        carry = s.predicate()
        high = Lane(dst.reg, dst.word + 1)
        plain = s.plain(index)
        if plain.op == "cast" and plain.args[0].type is I32:
            narrow = s.use(plain.args[0])
            s.put(
                alu(Op.LEA, "LEA", dst, narrow, low_base, x=shift, pd=carry),
                alu(Op.LEA_HI, "LEA.HI.X.SX32", high, narrow, high_base, x=shift, pa=Guard(carry), flags=FLAG_EXTENDED | FLAG_SIGNED),
            )
            return True
        lane = s.use(index)
        s.put(
            alu(Op.LEA, "LEA", dst, lane, low_base, x=shift, pd=carry),
            alu(Op.LEA_HI, "LEA.HI.X", high, lane, high_base, word_of(lane, 1), x=shift, pa=Guard(carry), flags=FLAG_EXTENDED),
        )
        return True
    return False


def _wide_product(s: Selector, v: Value, dst: Lane, power: int | None) -> None:
    a, b = v.args
    high = Lane(dst.reg, dst.word + 1)
    if power is not None:
        lane = s.use(a)
        s.put(
            alu(Op.SHF, "SHF.L.U64.HI", high, lane, Imm(power), word_of(lane, 1), x=ShiftMode.HI | ShiftMode.WIDE),
            alu(Op.SHF, "SHF.L.U32", dst, lane, Imm(power), ZERO),
        )
        return
    x, y = s.use(a), s.use(b)
    t = s.register(2)
    m = alu(Op.IMAD_WIDE, "IMAD.WIDE.U32", t, x, y, ZERO, cls=TimingClass.IMAD_WIDE)
    m.nd = m.nc = 2
    cross = s.register()
    s.put(
        m,
        alu(Op.IMAD, "IMAD", cross, x, word_of(y, 1), word_of(t, 1)),
        alu(Op.IMAD, "IMAD", high, word_of(x, 1), y, cross),
        alu(Op.MOV, "MOV", dst, t, cls=TimingClass.MOV, copy=True),
    )


# --- bits
_LUT = {"and": 0xC0, "or": 0xFC, "xor": 0x3C}
_TABLES = {0: 0xF0, 1: 0xCC, 2: 0xAA}


def _evaluate(op: str, x: int, y: int) -> int:
    return {"and": x & y, "or": x | y, "xor": x ^ y}[op]


@handles("and", "or", "xor")
def _logic(s: Selector, v: Value, dst: Lane | None) -> None:
    if v.type.bits == 64 and dst is not None:
        (la, ha), (lb, hb) = _pair_register(s, v.args[0]), _pair(s, v.args[1])
        table = _LUT[v.op]
        s.put(
            alu(Op.LOP3, "LOP3.LUT", dst, la, lb, ZERO, x=table),
            alu(Op.LOP3, "LOP3.LUT", Lane(dst.reg, dst.word + 1), ha, hb, ZERO, x=table),
        )
        return
    s.put(_lop3(s, v, dst, s.also.get(v.id)))


def _pair_register(s: Selector, v: Value) -> tuple[Any, Any]:
    lane = s.use(v)
    return lane, word_of(lane, 1)


def _lop3(s: Selector, v: Value, dst: Lane | None, predicate: VReg | None) -> Machine:
    """One LOP3 for a logical operation, and for one that it takes in."""
    leaves: list[Value] = []

    def table_of(x: Value) -> int:
        if x.op == "not" and s.single(x):
            return ~table_of(x.args[0]) & 0xFF
        if x not in leaves:
            leaves.append(x)
        return _TABLES[leaves.index(x)]

    first, second = v.args
    inner = next((x for x in (first, second) if x.op in _LUT and s.single(x) and x.type.bits == 32), None)
    if inner is not None:
        other = second if inner is first else first
        bare = {p.args[0] if p.op == "not" and s.single(p) else p for p in (*inner.args, other)}
        if len(bare) > 3:
            inner = None
    if inner is not None:
        other = second if inner is first else first
        table = _evaluate(v.op, _evaluate(inner.op, table_of(inner.args[0]), table_of(inner.args[1])), table_of(other))
    else:
        table = _evaluate(v.op, table_of(first), table_of(second))
    order = sorted(range(len(leaves)), key=lambda k: s.is_flexible(leaves[k]))
    if len(order) == 3:
        order = [order[0], order[2], order[1]] if s.is_flexible(leaves[order[2]]) else order
    operands: list[Any] = []
    for place, k in enumerate(order):
        operands.append(s.use(leaves[k]) if place != 1 else s.flexible(leaves[k]))
    table = _permuted(table, order)
    while len(operands) < 3:
        operands.append(ZERO)
    return alu(Op.LOP3, "LOP3.LUT", dst, *operands, x=table, pd=predicate)


def _permuted(table: int, order: list[int]) -> int:
    """The table for operands in another order: `order[place]` is the old number of the operand at `place`."""
    order = order + [k for k in range(3) if k not in order]
    out = 0
    for entry in range(8):
        bits = [entry >> 2 & 1, entry >> 1 & 1, entry & 1]
        old = [0, 0, 0]
        for place, k in enumerate(order):
            old[k] = bits[place]
        out |= (table >> (old[0] << 2 | old[1] << 1 | old[2]) & 1) << entry
    return out


@handles("not")
def _not(s: Selector, v: Value, dst: Lane) -> None:
    for k in range(v.type.registers):
        s.put(alu(Op.LOP3, "LOP3.LUT", Lane(dst.reg, dst.word + k), ZERO, word_of(s.use(v.args[0]), k), ZERO, x=0x33))


@handles("shl", "shr")
def _shift(s: Selector, v: Value, dst: Lane) -> None:
    a, amount = s.use(v.args[0]), s.flexible(v.args[1])
    signed = v.type.kind == "i"
    kind = "S" if signed else "U"
    sign = ShiftMode.SIGNED if signed else 0
    if v.type.bits == 32:
        if v.op == "shl":
            s.put(alu(Op.SHF, "SHF.L.U32", dst, a, amount, ZERO))
        else:
            s.put(alu(Op.SHF, f"SHF.R.{kind}32.HI", dst, ZERO, amount, a, x=ShiftMode.RIGHT | ShiftMode.HI | sign))
        return
    top, high = word_of(a, 1), Lane(dst.reg, dst.word + 1)
    if v.op == "shl":
        s.put(
            alu(Op.SHF, "SHF.L.U64.HI", high, a, amount, top, x=ShiftMode.HI | ShiftMode.WIDE),
            alu(Op.SHF, "SHF.L.U32", dst, a, amount, ZERO),
        )
    else:
        s.put(
            alu(Op.SHF, f"SHF.R.{kind}64", dst, a, amount, top, x=ShiftMode.RIGHT | ShiftMode.WIDE | sign),
            alu(Op.SHF, f"SHF.R.{kind}32.HI", high, ZERO, amount, top, x=ShiftMode.RIGHT | ShiftMode.HI | sign),
        )


@handles("shf")
def _funnel(s: Selector, v: Value, dst: Lane) -> None:
    high, low, amount = v.args
    s.put(alu(Op.SHF, "SHF.L.U32.HI", dst, s.use(low), s.flexible(amount), s.use(high), x=ShiftMode.HI))


@handles("popc", "flo", "brev")
def _bits(s: Selector, v: Value, dst: Lane) -> None:
    op, text = {"popc": (Op.POPC, "POPC"), "flo": (Op.FLO, "FLO.U32"), "brev": (Op.BREV, "BREV")}[v.op]
    s.put(alu(op, text, dst, s.use(v.args[0]), cls=TimingClass.XU))


# --- minimum, absolute value, selection
@handles("min", "max")
def _extreme(s: Selector, v: Value, dst: Lane) -> None:
    if v.type.is_float:
        HANDLERS["float:" + v.op](s, v, dst)
        return
    unsigned = v.type.kind == "u"
    least = None if v.op == "min" else False
    if v.type.bits == 32:
        a, b = s.two(*v.args)
        s.put(alu(Op.IMNMX, "VIMNMX" + (".U32" if unsigned else ""), dst, a, b, x=int(unsigned), pa=least))
        return
    (la, ha), (lb, hb) = (_pair_register(s, x) for x in v.args)
    p = s.predicate()
    how = "lt" if v.op == "min" else "gt"
    s.put(
        *_wide_compare(s, how, (la, ha), (lb, hb), unsigned, p),
        alu(Op.SEL, "SEL", dst, la, lb, pa=Guard(p)),
        alu(Op.SEL, "SEL", Lane(dst.reg, dst.word + 1), ha, hb, pa=Guard(p)),
    )


@handles("abs")
def _absolute(s: Selector, v: Value, dst: Lane) -> None:
    if v.type.is_float:
        HANDLERS["float:abs"](s, v, dst)
    elif v.type.bits == 32:
        s.put(alu(Op.IABS, "IABS", dst, s.use(v.args[0])))
    else:
        lane = s.use(v.args[0])
        sign, low, carry = s.register(), s.register(2), s.predicate()
        s.put(
            alu(Op.SHF, "SHF.R.S32.HI", sign, ZERO, Imm(31), word_of(lane, 1), x=ShiftMode.RIGHT | ShiftMode.HI | ShiftMode.SIGNED),
            alu(Op.LOP3, "LOP3.LUT", low, lane, sign, ZERO, x=0x3C),
            alu(Op.LOP3, "LOP3.LUT", word_of(low, 1), word_of(lane, 1), sign, ZERO, x=0x3C),
            alu(Op.IADD3, "IADD3", dst, low, sign, ZERO, smod=SMOD_NEG_B, pd=carry),
            alu(Op.IADD3, "IADD3.X", word_of(dst, 1), word_of(low, 1), sign, ZERO, smod=SMOD_NOT_B, flags=FLAG_EXTENDED, pa=Guard(carry)),
        )


_IN_PLACE = frozenset(("add", "sub", "mul", "neg", "fma", "and", "or", "xor"))


@handles("select")
def _select(s: Selector, v: Value, dst: Lane) -> None:
    condition, a, b = v.args
    test = s.test(condition)
    if isinstance(test, bool):
        s.copy(dst, a if test else b)
        return
    for chosen, other, guard in ((a, b, test), (b, a, test.inverted())):
        if s.guard is None and _changes_in_place(s, chosen, other):
            _in_place(s, dst, chosen, other, guard)
            return
    if v.type.is_float and v.type.registers == 1 and not v.type.is_half:
        HANDLERS["float:select"](s, v, dst)
        return
    if v.type.registers == 1:
        if s.is_flexible(a) and not s.is_flexible(b):
            a, b, test = b, a, test.inverted()
        x = ZERO if is_zero(a) else s.use(a)
        s.put(alu(Op.SEL, "SEL", dst, x, s.flexible(b), pa=test))
        return
    x, y = s.use(a), s.use(b)
    s.put(*(alu(Op.SEL, "SEL", word_of(dst, k), word_of(x, k), word_of(y, k), pa=test) for k in range(v.type.registers)))


def _changes_in_place(s: Selector, chosen: Value, other: Value) -> bool:
    """True for `c ? x op y : x`, which is one guarded instruction on x's register."""
    return (
        chosen.op in _IN_PLACE
        and s.single(chosen)
        and chosen.type.registers == 1
        and other in chosen.args
        and other.region is not None
        and not is_alias(other)
        and not any(x.op == "mul" and s.fusable(x) and chosen.op in ("add", "sub") for x in chosen.args)
    )


def _in_place(s: Selector, dst: Lane, chosen: Value, other: Value, guard: Guard) -> None:
    """Move `other` to `dst`, then compute `chosen` there under a guard."""
    held = s.lanes.get(other.id)
    s.lanes[other.id] = s.lanes[chosen.id] = dst
    s.merged.add(chosen.id)
    s.guard = guard
    s.value(chosen)
    s.guard = None
    s.done.add(chosen.id)
    del s.lanes[other.id]
    if held is not None:
        s.lanes[other.id] = held
    s.copy(dst, other)


# --- comparisons and predicates
@handles("cmp")
def _compare(s: Selector, v: Value, dst: Guard) -> None:
    if tests_bits(v):
        if v.args[0].region is s.region and v.args[0].id not in s.also:
            s.also[v.args[0].id] = dst.reg
            return
        s.put(*_comparison(s, v, dst.reg, None, BoolOp.AND, "ne"))
        return
    s.put(*_comparison(s, v, dst.reg, None, BoolOp.AND, v.attr))


def _comparison(s: Selector, v: Value, pd: VReg, other: Guard | None, how: BoolOp, attr: str) -> list[Machine]:
    a, b = v.args
    if a.type.is_float:
        return HANDLERS["float:cmp"](s, v, (pd, other, how))  # type: ignore[return-value]
    unsigned = a.type.kind == "u"
    if a.type.bits == 64:
        (la, ha), (lb, hb) = _pair_register(s, a), _pair(s, b)
        return _wide_compare(s, attr, (la, ha), (lb, hb), unsigned, pd, other, how)
    x, y = s.use(a), s.flexible(b)
    text = f"ISETP.{attr.upper()}{'.U32' if unsigned else ''}.{how.name}"
    code = COMPARES[attr] | how << 4 | unsigned << 8
    return [alu(Op.ISETP, text, None, x, y, x=code, pd=pd, pa=other, cls=TimingClass.SETP)]


def _wide_compare(
    s: Selector, attr: str, a: tuple[Any, Any], b: tuple[Any, Any], unsigned: bool, pd: VReg, other: Guard | None = None, how: BoolOp = BoolOp.AND
) -> list[Machine]:
    """Low words unsigned, then high words, which decide unless they are equal."""
    low = s.predicate()
    name = attr.upper()
    code = COMPARES[attr] | how << 4 | unsigned << 8 | 1 << 9
    return [
        alu(Op.ISETP, f"ISETP.{name}.U32.AND", None, a[0], b[0], x=COMPARES[attr] | 1 << 8, pd=low, cls=TimingClass.SETP),
        alu(
            Op.ISETP, f"ISETP.{name}{'.U32' if unsigned else ''}.{how.name}.EX", None, a[1], b[1],
            x=code, pd=pd, pa=other, pb=Guard(low), cls=TimingClass.SETP,
        ),
    ]  # fmt: skip


@handles("pand", "por", "pxor")
def _combine(s: Selector, v: Value, dst: Guard) -> None:
    """A comparison with the other condition as its third input, or PLOP3."""
    a, b = v.args
    how = {"pand": BoolOp.AND, "por": BoolOp.OR, "pxor": BoolOp.XOR}[v.op]
    for compared, other in ((b, a), (a, b)):
        if compared.op == "cmp" and s.single(compared) and compared.id not in s.guards and not tests_bits(compared):
            guard = s.test(other)
            assert not isinstance(guard, bool)
            s.put(*_comparison(s, compared, dst.reg, guard, how, compared.attr))
            return
    x, y = s.test(a), s.test(b)
    assert not isinstance(x, bool) and not isinstance(y, bool)
    table = {"pand": 0xC0, "por": 0xFC, "pxor": 0x3C}[v.op]
    s.put(alu(Op.PLOP3, "PLOP3.LUT", None, x=table, y=7, pd=dst.reg, pa=x, pb=y, cls=TimingClass.SETP))

