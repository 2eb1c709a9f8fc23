"""Selection of floating-point arithmetic and special functions."""

from __future__ import annotations

from sim.builder.instructions import COMPARES, alu
from sim.builder.ir import Value
from sim.builder.machine import ZERO, Guard, Lane, Machine, VReg
from sim.builder.select import Selector, handles, is_zero
from sim.builder.types import BF16, F64, Type
from sim.isa import SMOD_ABS_A, SMOD_NEG_A, SMOD_NEG_B, BoolOp, Compare, MufuFunction, Op, Rounding, TimingClass
from sim.program import Imm

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


def bare(v: Value, absolute: bool = True) -> tuple[Value, int]:
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
    if v.op == "mul" and v.attr is None and s.fusable(v) and v.id not in s.done:
        return v, sign
    return None


@handles("add", "sub", family="f")
def _sum(s: Selector, v: Value, dst: Lane) -> None:
    """A sum; one with a product in it becomes a multiply-add, as CUDA's compiler contracts by default."""
    a, b = v.args
    minus = SMOD_NEG_A if v.op == "sub" else 0
    for at in (0, 1):
        found = _product_of(s, v.args[at])
        if found is not None:
            product, sign = found
            sign ^= minus if at == 1 else 0
            c, c_mod = bare(v.args[1 - at], absolute=False)
            c_mod ^= minus if at == 0 else 0
            _fused(s, v.type, product.args[0], product.args[1], c, sign, c_mod, dst, 0)
            return
    (x, mx), (y, my) = bare(a), bare(b)
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


@handles("mul", family="f")
def _product(s: Selector, v: Value, dst: Lane) -> None:
    (x, mx), (y, my) = (bare(a) for a in v.args)
    if _prefers_right(s, v.type, x, y):
        x, mx, y, my = y, my, x, mx
    _emit(s, v.type, "mul", dst, [(x, mx), (y, my)], 0)


@handles("fma", family="f")
def _multiply_add(s: Selector, v: Value, dst: Lane) -> None:
    c, c_mod = bare(v.args[2], absolute=False)
    mode = 0
    if v.attr is not None:
        rounding, saturate = v.attr
        mode = int(rounding) | (_SATURATE if saturate else 0)
    _fused(s, v.type, v.args[0], v.args[1], c, 0, c_mod, dst, mode)


def _fused(s: Selector, t: Type, a: Value, b: Value, c: Value, sign: int, c_mod: int, dst: Lane, mode: int) -> None:
    (x, mx), (y, my) = bare(a, absolute=False), bare(b, absolute=False)
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
    last_bends = len(sources) == 3 and _can_bend(s, t, sources[2][0]) and not is_zero(sources[2][0])
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


@handles("neg", "abs", family="f")
def _sign(s: Selector, v: Value, dst: Lane) -> None:
    """A sign operation that no instruction takes in."""
    x, smod = bare(v)
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


@handles("min", "max", family="f")
def _extreme(s: Selector, v: Value, dst: Lane) -> None:
    (x, mx), (y, my) = (bare(a) for a in v.args)
    if _prefers_right(s, v.type, x, y):
        x, mx, y, my = y, my, x, mx
    pa = None if v.op == "min" else False
    m = alu(Op.FMNMX, "FMNMX", dst, s.use(x), s.use(y) if v.type is F64 else s.flexible(y), smod=mx | my << 1, pa=pa)
    if v.type is F64:
        m.op, m.text, m.cls, m.nd, m.na, m.nb = Op.DMNMX, "DMNMX", TimingClass.FP64, 2, 2, 2
    elif v.type.is_half:
        m.op, m.text, m.x = Op.HMNMX2, "HMNMX2" + (".BF16_V2" if v.type is BF16 else ""), int(v.type is BF16)
    s.put(m)


def choose_float(s: Selector, a: Value, b: Value, test: Guard, dst: Lane) -> None:
    """FSEL, which takes signs in."""
    (x, mx), (y, my) = bare(a), bare(b)
    if s.is_flexible(x) and not s.is_flexible(y):
        x, mx, y, my, test = y, my, x, mx, test.inverted()
    s.put(alu(Op.FSEL, "FSEL", dst, s.use(x), s.flexible(y), smod=mx | my << 1, pa=test))


def compare_floats(s: Selector, v: Value, pd: VReg, other: Guard | None, how: BoolOp) -> Machine:
    """FSETP, DSETP or HSETP2, combined with the condition `other`."""
    (x, mx), (y, my) = (bare(a) for a in v.args)
    t = v.args[0].type
    code: int = COMPARES[v.attr]
    if _prefers_right(s, t, x, y):
        x, mx, y, my = y, my, x, mx
        code = _mirrored(code)
    suffix = f".{Compare(code).name}.{how.name}"
    m = alu(Op.FSETP, "FSETP" + suffix, None, s.use(x), s.flexible(y) if t is not F64 else s.use(y), pd=pd, pa=other)
    m.cls, m.smod, m.x = TimingClass.SETP, mx | my << 1, code | how << 4
    if t is F64:
        m.op, m.text, m.cls, m.na, m.nb = Op.DSETP, "DSETP" + suffix, TimingClass.FP64, 2, 2
    elif t.is_half:  # of the low halves
        m.op, m.text = Op.HSETP2, f"HSETP2{'.BF16_V2' if t is BF16 else ''}{suffix}"
        m.x = int(t is BF16) | 1 << 4 | 1 << 6 | code << 12 | how << 16
    return m


def _mirrored(code: int) -> int:
    """The comparison with its operands exchanged: less and greater change places."""
    return code & 0b1010 | (code & 1) << 2 | (code >> 2) & 1


@handles("fchk")
def _division_check(s: Selector, v: Value, dst: Guard) -> None:
    a, b = v.args
    s.put(alu(Op.FCHK, "FCHK", None, s.use(a), s.flexible(b), pd=dst.reg, cls=TimingClass.XU))


@handles("mufu", "estimate")
def _special(s: Selector, v: Value, dst: Lane) -> None:
    x, smod = bare(v.args[0])
    function = MufuFunction(v.attr)
    s.put(alu(Op.MUFU, f"MUFU.{function.name}", dst, s.use(x), smod=smod, x=function, cls=TimingClass.XU))
