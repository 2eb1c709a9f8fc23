"""Selection of floating-point arithmetic, special functions and conversions."""

from __future__ import annotations

from typing import Any

from sim.builder.ir import Value
from sim.builder.machine import ZERO, Guard, Lane, Machine, VReg
from sim.builder.select import Selector, handles, word_of
from sim.builder.select_integer import COMPARES, alu
from sim.builder.types import BF16, BOOL, F16, F32, F64, I32, I64, U32, U64, Type, bits_of
from sim.isa import (
    SMOD_ABS_A,
    SMOD_NEG_A,
    SMOD_NEG_B,
    BoolOp,
    Compare,
    MufuFunction,
    NumberType,
    Op,
    Rounding,
    ShiftMode,
    TimingClass,
)
from sim.program import Imm

_NUMBER = {
    F16: NumberType.F16, BF16: NumberType.BF16, F32: NumberType.F32, F64: NumberType.F64,
    I32: NumberType.S32, U32: NumberType.U32, I64: NumberType.S64, U64: NumberType.U64,
}  # fmt: skip
_OPS: dict[str, dict[str, tuple[Op, str]]] = {
    "add": {"f32": (Op.FADD, "FADD"), "f64": (Op.DADD, "DADD"), "half": (Op.HADD2, "HADD2")},
    "mul": {"f32": (Op.FMUL, "FMUL"), "f64": (Op.DMUL, "DMUL"), "half": (Op.HMUL2, "HMUL2")},
    "fma": {"f32": (Op.FFMA, "FFMA"), "f64": (Op.DFMA, "DFMA"), "half": (Op.HFMA2, "HFMA2")},
}
_SATURATE = 8


def _family(t: Type) -> tuple[str, TimingClass]:
    if t.is_half:
        return "half", TimingClass.FP16
    return ("f64", TimingClass.FP64) if t is F64 else ("f32", TimingClass.FP32)


def _bare(v: Value, absolute: bool = True) -> tuple[Value, int]:
    """A source without its sign operations, and those as SMOD bits of source A."""
    smod = 0
    while v.type.is_float and v.region is not None:
        if v.op == "neg":
            smod ^= 0 if smod & SMOD_ABS_A else SMOD_NEG_A
        elif v.op == "abs" and absolute:
            smod |= SMOD_ABS_A
        else:
            break
        v = v.args[0]
    return v, smod


def _product_of(s: Selector, v: Value) -> tuple[Value, int] | None:
    """The product that a sum may take in, and whether it is subtracted."""
    sign = 0
    while v.op == "neg" and v.region is s.region:
        sign ^= SMOD_NEG_A
        v = v.args[0]
    if v.op == "mul" and s.fusable(v) and v.id not in s.done:
        return v, sign
    return None


@handles("float:add", "float:sub")
def _sum(s: Selector, v: Value, dst: Lane) -> None:
    """A sum; one with a product in it becomes a multiply-add, as CUDA's compiler contracts by default."""
    a, b = v.args
    minus = SMOD_NEG_A if v.op == "sub" else 0
    for at in (0, 1):
        found = _product_of(s, v.args[at])
        if found is not None:
            product, sign = found
            sign ^= minus if at == 1 else 0
            c, c_mod = _bare(v.args[1 - at], absolute=False)
            c_mod ^= minus if at == 0 else 0
            _fused(s, v.type, product.args[0], product.args[1], c, sign, c_mod, dst, 0)
            return
    (x, mx), (y, my) = _bare(a), _bare(b)
    my ^= minus
    if _prefers_right(s, v.type, x, y):
        x, mx, y, my = y, my, x, mx
    _emit(s, v.type, "add", dst, [(x, mx), (y, my)], 0)


def _prefers_right(s: Selector, t: Type, x: Value, y: Value) -> bool:
    return _can_bend(s, t, x) and not _can_bend(s, t, y)


def _can_bend(s: Selector, t: Type, v: Value) -> bool:
    """True when an operand may be an immediate or uniform register."""
    if t is F64:
        return False
    return s.is_flexible(v)


@handles("float:mul")
def _product(s: Selector, v: Value, dst: Lane) -> None:
    (x, mx), (y, my) = (_bare(a) for a in v.args)
    if _prefers_right(s, v.type, x, y):
        x, mx, y, my = y, my, x, mx
    _emit(s, v.type, "mul", dst, [(x, mx), (y, my)], 0)


@handles("fma")
def _multiply_add(s: Selector, v: Value, dst: Lane) -> None:
    c, c_mod = _bare(v.args[2], absolute=False)
    mode = 0
    if v.attr is not None:
        rounding, saturate = v.attr
        mode = int(rounding) | (_SATURATE if saturate else 0)
    _fused(s, v.type, v.args[0], v.args[1], c, 0, c_mod, dst, mode)


def _fused(s: Selector, t: Type, a: Value, b: Value, c: Value, sign: int, c_mod: int, dst: Lane, mode: int) -> None:
    (x, mx), (y, my) = _bare(a, absolute=False), _bare(b, absolute=False)
    mx ^= sign
    if _prefers_right(s, t, x, y):
        x, mx, y, my = y, my, x, mx
    _emit(s, t, "fma", dst, [(x, mx), (y, my), (c, c_mod)], mode)


def _emit(s: Selector, t: Type, kind: str, dst: Lane, sources: list[tuple[Value, int]], mode: int) -> None:
    """One arithmetic instruction. At most one source besides the first is no R register."""
    family, cls = _family(t)
    op, text = _OPS[kind][family]
    smod, operands = 0, []
    bent = False
    last_bends = len(sources) == 3 and _can_bend(s, t, sources[2][0]) and not _is_zero(sources[2][0])
    for at, (v, m) in enumerate(sources):
        bends = at > 0 and _can_bend(s, t, v) and not bent and not (last_bends and at == 1)
        operand = s.flexible(v) if bends else s.use(v)
        bent = bent or (bends and operand is not ZERO)
        operands.append(operand)
        smod |= m << at
    while len(operands) < 3:
        operands.append(None)
    x = mode
    if family == "half":
        text += ".BF16_V2" if t is BF16 else ""
        x = int(t is BF16)
    elif mode:
        text += {Rounding.RN: "", Rounding.RZ: ".RZ", Rounding.RM: ".RM", Rounding.RP: ".RP"}[Rounding(mode & 3)]
        text += ".SAT" if mode & _SATURATE else ""
    words = 2 if t is F64 else 1
    m_ = alu(op, text, dst, *operands, cls=cls, smod=smod, x=x)
    m_.nd = words
    m_.na, m_.nb, m_.nc = (words if o is not None else 0 for o in operands)
    s.put(m_)


def _is_zero(v: Value) -> bool:
    return v.is_const and bits_of(v.attr, v.type) == 0


@handles("float:neg", "float:abs")
def _sign(s: Selector, v: Value, dst: Lane) -> None:
    """A sign operation that no instruction takes in."""
    x, smod = _bare(v)
    if v.type.is_half:
        lane = s.use(x)
        if smod & SMOD_ABS_A:
            table, mask = (0xC0, 0x7FFF7FFF) if not smod & SMOD_NEG_A else (0xFC, 0x80008000)
        else:
            table, mask = 0x3C, 0x80008000
        s.put(alu(Op.LOP3, "LOP3.LUT", dst, lane, Imm(mask), ZERO, x=table))
        return
    family, cls = _family(v.type)
    op, text = _OPS["add"][family]
    m = alu(op, text, dst, s.use(x), ZERO, cls=cls, smod=smod | SMOD_NEG_B)
    if v.type is F64:
        m.nd = m.na = m.nb = 2
    s.put(m)


@handles("float:min", "float:max")
def _extreme(s: Selector, v: Value, dst: Lane) -> None:
    (x, mx), (y, my) = (_bare(a) for a in v.args)
    if _prefers_right(s, v.type, x, y):
        x, mx, y, my = y, my, x, mx
    pa = None if v.op == "min" else False
    if v.type is F64:
        a, b = s.use(x), s.use(y)
        m = alu(Op.DMNMX, "DMNMX", dst, a, b, cls=TimingClass.FP64, smod=mx | my << 1, pa=pa)
        m.nd = m.na = m.nb = 2
    elif v.type.is_half:
        m = alu(Op.HMNMX2, "HMNMX2" + (".BF16_V2" if v.type is BF16 else ""), dst, s.use(x), s.flexible(y),
                smod=mx | my << 1, pa=pa, x=int(v.type is BF16))  # fmt: skip
    else:
        m = alu(Op.FMNMX, "FMNMX", dst, s.use(x), s.flexible(y), smod=mx | my << 1, pa=pa)
    s.put(m)


@handles("float:select")
def _select(s: Selector, v: Value, dst: Lane) -> None:
    condition, a, b = v.args
    test = s.test(condition)
    assert isinstance(test, Guard)
    (x, mx), (y, my) = _bare(a), _bare(b)
    if s.is_flexible(x) and not s.is_flexible(y):
        x, mx, y, my, test = y, my, x, mx, test.inverted()
    s.put(alu(Op.FSEL, "FSEL", dst, s.use(x), s.flexible(y), smod=mx | my << 1, pa=test))


@handles("float:cmp")
def _compare(s: Selector, v: Value, how: Any) -> Any:
    """The instruction of a float comparison; `how` is (predicate, other condition, its operation)."""
    pd, other, operation = how
    (x, mx), (y, my) = (_bare(a) for a in v.args)
    t = v.args[0].type
    name = v.attr.upper()
    code: int = COMPARES[v.attr]
    if _can_bend(s, t, x) and not _can_bend(s, t, y):
        x, mx, y, my = y, my, x, mx
        code = _mirrored(code)
        name = Compare(code).name
    return [_set_predicate(s, t, name, code, (x, mx), (y, my), pd, other, operation)]


def _set_predicate(
    s: Selector, t: Type, name: str, code: int, a: tuple[Value, int], b: tuple[Value, int], pd: VReg, other: Guard | None, operation: BoolOp
) -> Machine:
    smod = a[1] | b[1] << 1
    if t is F64:
        m = alu(Op.DSETP, f"DSETP.{name}.{operation.name}", None, s.use(a[0]), s.use(b[0]), smod=smod, x=code | operation << 4,
                pd=pd, pa=other, cls=TimingClass.FP64)  # fmt: skip
        m.na = m.nb = 2
        return m
    if t.is_half:
        suffix = ".BF16_V2" if t is BF16 else ""
        return alu(
            Op.HSETP2, f"HSETP2{suffix}.{name}.{operation.name}", None, s.use(a[0]), s.flexible(b[0]), smod=smod,
            x=int(t is BF16) | 1 << 4 | 1 << 6 | code << 12 | operation << 16, pd=pd, pa=other, cls=TimingClass.SETP,
        )  # fmt: skip
    return alu(
        Op.FSETP, f"FSETP.{name}.{operation.name}", None, s.use(a[0]), s.flexible(b[0]), smod=smod,
        x=code | operation << 4, pd=pd, pa=other, cls=TimingClass.SETP,
    )  # fmt: skip


def _mirrored(code: int) -> int:
    """The comparison with its operands exchanged: less and greater change places."""
    return code & 0b1010 | (code & 1) << 2 | (code >> 2) & 1


@handles("fchk")
def _division_check(s: Selector, v: Value, dst: Guard) -> None:
    a, b = v.args
    s.put(alu(Op.FCHK, "FCHK", None, s.use(a), s.flexible(b), pd=dst.reg, cls=TimingClass.XU))


@handles("mufu", "estimate")
def _special(s: Selector, v: Value, dst: Lane) -> None:
    x, smod = _bare(v.args[0])
    function = MufuFunction(v.attr)
    s.put(alu(Op.MUFU, f"MUFU.{function.name}", dst, s.use(x), smod=smod, x=function, cls=TimingClass.XU))


# --- conversions
@handles("cast")
def _cast(s: Selector, v: Value, dst: Lane) -> None:
    a, to = v.args[0], v.type
    if a.type is BOOL:
        _from_predicate(s, a, to, dst)
    elif a.type.is_int and to.is_int:
        _integer_to_integer(s, a, to, dst)
    elif a.type.is_int:
        _to_float(s, a, to, dst, Rounding.RN)
    elif to.is_int:
        _to_integer(s, a, to, dst, Rounding.RZ)
    else:
        _float_to_float(s, a, to, dst)


def _from_predicate(s: Selector, a: Value, to: Type, dst: Lane) -> None:
    test = s.test(a)
    one = bits_of(1, to)
    for k in range(to.registers):
        word = one >> (32 * k) & 0xFFFFFFFF
        if not word or isinstance(test, bool):
            s.put(alu(Op.MOV, "MOV", word_of(dst, k), Imm(word) if word and test else ZERO, cls=TimingClass.MOV))
        else:
            s.put(alu(Op.SEL, "SEL", word_of(dst, k), ZERO, Imm(word, to.is_float), pa=test.inverted()))


def _integer_to_integer(s: Selector, a: Value, to: Type, dst: Lane) -> None:
    lane = s.use(a)
    if to.bits == 32:
        s.put(alu(Op.MOV, "MOV", dst, lane, cls=TimingClass.MOV, copy=isinstance(lane, Lane)))
        return
    high = word_of(dst, 1)
    if a.type.kind == "u" or a.nonneg:
        top = alu(Op.MOV, "MOV", high, ZERO, cls=TimingClass.MOV)
    else:
        top = alu(Op.SHF, "SHF.R.S32.HI", high, ZERO, Imm(31), lane, x=ShiftMode.RIGHT | ShiftMode.HI | ShiftMode.SIGNED)
    s.put(top, alu(Op.MOV, "MOV", dst, lane, cls=TimingClass.MOV, copy=isinstance(lane, Lane)))


def _conversion(op: Op, text: str, dst: Lane, source: Any, a: Type, to: Type, rounding: Rounding, cls: TimingClass, smod: int = 0) -> Machine:
    m = alu(op, text, dst, source, x=_NUMBER[a] | _NUMBER[to] << 4 | rounding << 8, cls=cls, smod=smod)
    m.nd, m.na = to.registers, a.registers
    return m


_MODE = {Rounding.RN: "", Rounding.RZ: ".RZ", Rounding.RM: ".RM", Rounding.RP: ".RP"}


def _short(t: Type) -> str:
    return {"i": "S", "u": "U", "f": "F"}[t.kind] + str(t.bits) if t is not BF16 else "BF16"


@handles("i2f")
def _i2f(s: Selector, v: Value, dst: Lane) -> None:
    _to_float(s, v.args[0], v.type, dst, Rounding(v.attr))


def _to_float(s: Selector, a: Value, to: Type, dst: Lane, rounding: Rounding) -> None:
    simple = a.type.bits == 32 and to is F32 and rounding is Rounding.RN
    if to.is_half:
        wide = s.register()
        s.put(
            _conversion(Op.I2F, f"I2FP.F32.{_short(a.type)}", wide, s.use(a), a.type, F32, Rounding.RN, TimingClass.ALU),
            _pack(dst, wide, ZERO, to),
        )
        return
    text = f"I2FP.F32.{_short(a.type)}" if simple else f"I2F.{_short(to)}.{_short(a.type)}{_MODE[rounding]}"
    cls = TimingClass.ALU if simple else TimingClass.CONVERT
    s.put(_conversion(Op.I2F, text, dst, s.use(a), a.type, to, rounding, cls))


@handles("f2i")
def _f2i(s: Selector, v: Value, dst: Lane) -> None:
    _to_integer(s, v.args[0], v.type, dst, Rounding(v.attr))


def _to_integer(s: Selector, a: Value, to: Type, dst: Lane, rounding: Rounding) -> None:
    if a.type.is_half:
        wide = s.register()
        m = _conversion(Op.F2I, f"F2I.{_short(to)}.TRUNC.NTZ", dst, wide, F32, to, rounding, TimingClass.CONVERT)
        s.put(*_widen(s, wide, a), m)
        return
    x, smod = _bare(a)
    suffix = {Rounding.RZ: ".TRUNC.NTZ", Rounding.RN: ".NTZ", Rounding.RM: ".FLOOR.NTZ", Rounding.RP: ".CEIL.NTZ"}[rounding]
    text = f"F2I{'' if to is I32 else '.' + _short(to)}{'.F64' if a.type is F64 else ''}{suffix}"
    s.put(_conversion(Op.F2I, text, dst, s.use(x), a.type, to, rounding, TimingClass.CONVERT, smod))


@handles("frnd")
def _round(s: Selector, v: Value, dst: Lane) -> None:
    x, smod = _bare(v.args[0])
    rounding = Rounding(v.attr)
    suffix = {Rounding.RZ: ".TRUNC", Rounding.RN: "", Rounding.RM: ".FLOOR", Rounding.RP: ".CEIL"}[rounding]
    text = f"FRND{'.F64' if v.type is F64 else ''}{suffix}"
    s.put(_conversion(Op.FRND, text, dst, s.use(x), v.type, v.type, rounding, TimingClass.CONVERT, smod))


def _float_to_float(s: Selector, a: Value, to: Type, dst: Lane) -> None:
    x, smod = _bare(a)
    if F64 in (a.type, to):
        if a.type.is_half:
            wide = s.register()
            s.put(*_widen(s, wide, a), _conversion(Op.F2F, "F2F.F64.F32", dst, wide, F32, F64, Rounding.RN, TimingClass.CONVERT))
        elif to.is_half:
            s.put(_conversion(Op.F2F, f"F2F.{_short(to)}.F64", dst, s.use(x), F64, to, Rounding.RN, TimingClass.CONVERT, smod))
        else:
            text = f"F2F.{_short(to)}.{_short(a.type)}"
            s.put(_conversion(Op.F2F, text, dst, s.use(x), a.type, to, Rounding.RN, TimingClass.CONVERT, smod))
    elif to is F32:
        s.put(*_widen(s, dst, a))
    elif a.type is F32:
        s.put(_pack(dst, s.use(x), ZERO, to, smod))
    else:
        wide = s.register()
        s.put(*_widen(s, wide, a), _pack(dst, wide, ZERO, to))


def _widen(s: Selector, dst: Lane, a: Value) -> list[Machine]:
    """A half to float32: a shift for bfloat16, HADD2.F32 for float16."""
    kind, high = a.type, False
    if a.op == "half" and s.single(a):
        a, high = a.args[0], bool(a.attr)
    return [_widened(dst, s.use(a), kind, high)]


def _widened(dst: Lane, source: Any, kind: Type, high: bool) -> Machine:
    if kind is BF16:
        if high:
            return alu(Op.LOP3, "LOP3.LUT", dst, source, Imm(0xFFFF0000), ZERO, x=0xC0)
        return alu(Op.SHF, "SHF.L.U32", dst, source, Imm(16), ZERO)
    selector = 2 if high else 1
    return alu(
        Op.HADD2, "HADD2.F32", dst, ZERO, source, cls=TimingClass.FP16,
        smod=SMOD_NEG_A, x=selector << 4 | selector << 6 | 1 << 10,
    )  # fmt: skip


def _pack(dst: Lane, low: Any, high: Any, to: Type, smod: int = 0) -> Machine:
    """F2FP: two float32 to packed halves. The instruction's first source becomes the high half."""
    kind = _NUMBER[to]
    name = "BF16" if to is BF16 else "F16"
    return alu(Op.F2FP, f"F2FP.{name}.F32.PACK_AB", dst, high, low, x=kind, smod=smod << 1)


@handles("packfloat")
def _packfloat(s: Selector, v: Value, dst: Lane) -> None:
    (x, mx), (y, my) = (_bare(a) for a in v.args)
    m = _pack(dst, s.use(x), s.use(y), v.attr)
    m.smod = my | mx << 1
    s.put(m)


@handles("packhalf")
def _packhalf(s: Selector, v: Value, dst: Lane) -> None:
    low, high = (s.use(a) for a in v.args)
    s.put(alu(Op.PRMT, "PRMT", dst, low, Imm(0x5410), high))


@handles("half")
def _half(s: Selector, v: Value, dst: Lane) -> None:
    source = s.use(v.args[0])
    selector = 0x7632 if v.attr else 0x7610
    s.put(alu(Op.PRMT, "PRMT", dst, source, Imm(selector), ZERO))
