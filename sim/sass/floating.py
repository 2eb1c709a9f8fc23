"""Translation of floating-point arithmetic, comparisons, conversions and tensor instructions."""

from __future__ import annotations

from sim.isa import FLAG_FTZ, BoolOp, Compare, MmaShape, MufuFunction, NumberType, Op, Rounding, TimingClass
from sim.sass.cursor import Cursor, opcode
from sim.sass.errors import SassError
from sim.sass.integer import BOOLEANS, shape

ROUNDINGS = {"RN": Rounding.RN, "RZ": Rounding.RZ, "RM": Rounding.RM, "RP": Rounding.RP}
WHOLE_ROUNDINGS = {**ROUNDINGS, "TRUNC": Rounding.RZ, "FLOOR": Rounding.RM, "CEIL": Rounding.RP, "ROUND": Rounding.RN}
COMPARES: dict[str, int] = {
    name: Compare[name]
    for name in ("F", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU")
} | {"T": 15}
FLOATS = {name: NumberType[name] for name in ("F16", "BF16", "F32", "F64")}
INTEGERS = {name: NumberType[name] for name in ("U8", "S8", "U16", "S16", "U32", "S32", "U64", "S64")}
_TWO_WORDS = (NumberType.U64, NumberType.S64, NumberType.F64)
_BYTES = {"B0": 0, "B1": 1, "B2": 2, "B3": 3, "H0": 0, "H1": 2}


def words_of(kind: NumberType) -> int:
    """Registers that a number takes."""
    return 2 if kind in _TWO_WORDS else 1


# --- float32


def _flush(c: Cursor) -> None:
    """Subnormal numbers become zeros where the modifiers say so."""
    if c.has("FTZ"):
        c.out.flags |= FLAG_FTZ


@opcode("FADD", "FMUL", "FFMA")
def arithmetic(c: Cursor) -> None:
    shape(c, Op[c.base], TimingClass.FP32)
    c.out.x = c.pick(ROUNDINGS, Rounding.RN) | c.has("FTZ") << 2 | c.has("SAT") << 3
    c.destination()
    for slot in "abc" if c.base == "FFMA" else "ab":
        c.source(slot, immediate="single")


@opcode("FSETP")
def compare(c: Cursor) -> None:
    shape(c, Op.FSETP, TimingClass.SETP)
    c.out.x = c.need(COMPARES, "comparison") | c.has("FTZ") << 8 | c.pick(BOOLEANS, BoolOp.AND) << 4
    c.out.pd, c.out.pe = c.predicate_destination(), c.predicate_destination()
    c.source("a", immediate="single")
    c.source("b", immediate="single")
    c.out.pa = c.predicate_source()


@opcode("FSET")
def compare_to_register(c: Cursor) -> None:
    shape(c, Op.FSET, TimingClass.ALU)
    one = c.has("BF")
    c.out.x = c.need(COMPARES, "comparison") | c.has("FTZ") << 8 | c.pick(BOOLEANS, BoolOp.AND) << 4 | one << 9
    c.destination()
    c.source("a", immediate="single")
    c.source("b", immediate="single")
    c.out.pa = c.predicate_source()


@opcode("FSEL", "FMNMX")
def select(c: Cursor) -> None:
    shape(c, Op[c.base], TimingClass.ALU)
    _flush(c)
    c.out.x = int(c.base == "FMNMX" and c.has("NAN"))
    c.destination()
    c.source("a", immediate="single")
    c.source("b", immediate="single")
    c.out.pa = c.predicate_source()


@opcode("FCHK")
def division_check(c: Cursor) -> None:
    shape(c, Op.FCHK, TimingClass.XU)
    c.drop("DIVIDE")
    c.out.pd = c.predicate_destination()
    c.source("a", immediate="single")
    c.source("b", immediate="single")


@opcode("MUFU")
def special_function(c: Cursor) -> None:
    shape(c, Op.MUFU, TimingClass.XU)
    c.out.x = c.need({f.name: f for f in MufuFunction}, "function")
    c.destination()
    c.source("a", immediate="single")


# --- conversions


@opcode("I2F", "I2FP")
def integer_to_float(c: Cursor) -> None:
    shape(c, Op.I2F, TimingClass.ALU if c.base == "I2FP" else TimingClass.CONVERT)
    to, origin = c.pick(FLOATS, NumberType.F32), c.pick(INTEGERS, NumberType.S32)
    c.out.x = origin | to << 4 | c.pick(ROUNDINGS, Rounding.RN) << 8
    c.destination(words_of(to))
    c.out.x |= c.source("a", words_of(origin), suffixes=_BYTES) << 12


@opcode("F2I")
def float_to_integer(c: Cursor) -> None:
    shape(c, Op.F2I, TimingClass.CONVERT)
    _flush(c)
    to, origin = c.pick(INTEGERS, NumberType.S32), c.pick(FLOATS, NumberType.F32)
    c.out.x = origin | to << 4 | c.pick(WHOLE_ROUNDINGS, Rounding.RN) << 8
    c.drop("NTZ")
    c.destination(words_of(to))
    c.source("a", words_of(origin), immediate="single" if origin is not NumberType.F64 else "double")


@opcode("F2F")
def float_to_float(c: Cursor) -> None:
    shape(c, Op.F2F, TimingClass.CONVERT)
    _flush(c)
    to, origin = c.need(FLOATS, "type"), c.need(FLOATS, "source type")
    c.out.x = origin | to << 4 | c.pick(ROUNDINGS, Rounding.RN) << 8 | c.has("SAT") << 10
    c.destination(words_of(to))
    c.source("a", words_of(origin), immediate="single" if origin is not NumberType.F64 else "double")


@opcode("FRND")
def round_to_whole(c: Cursor) -> None:
    shape(c, Op.FRND, TimingClass.CONVERT)
    _flush(c)
    kind = c.pick(FLOATS, NumberType.F32)
    c.out.x = kind | kind << 4 | c.pick(WHOLE_ROUNDINGS, Rounding.RN) << 8
    c.destination(words_of(kind))
    c.source("a", words_of(kind), immediate="single")


@opcode("F2FP")
def pack_halves(c: Cursor) -> None:
    shape(c, Op.F2FP, TimingClass.ALU)
    kind = c.pick({"F16": NumberType.F16, "BF16": NumberType.BF16}, NumberType.F16)
    c.drop("F32")
    if not (c.has("PACK_AB") or c.has("PACK")):
        raise SassError("only packing two numbers (PACK_AB) is known")
    c.out.x = kind | c.pick(ROUNDINGS, Rounding.RN) << 8
    c.destination()
    c.source("a", immediate="single")
    c.source("b", immediate="single")


@opcode("I2I")
def integer_to_integer(c: Cursor) -> None:
    shape(c, Op.I2I, TimingClass.CONVERT)
    to, origin = c.need(INTEGERS, "type"), c.pick(INTEGERS, NumberType.S32)
    c.out.x = origin | to << 4 | c.has("SAT") << 10
    c.destination(words_of(to))
    c.source("a", words_of(origin))


# --- halves


def _half_type(c: Cursor) -> bool:
    """Whether the halves are bfloat16."""
    return c.has("BF16_V2") or c.has("BF16")


@opcode("HADD2", "HMUL2", "HFMA2")
def half_arithmetic(c: Cursor) -> None:
    shape(c, Op[c.base], TimingClass.FP16)
    # The card counts .MMA on the tensor pipe, at a rate that is not measured; here it takes an FMA slot.
    if c.has("MMA"):
        c.out.cls = TimingClass.FP32
    bf16 = _half_type(c)
    _flush(c)
    c.out.x = bf16 | c.has("F32") << 10 | c.has("SAT") << 11
    c.destination()
    for k, slot in enumerate("abc" if c.base == "HFMA2" else "ab"):
        c.out.x |= c.packed_source(slot, bf16) << (4 + 2 * k)


@opcode("HSETP2", "HSET2")
def half_comparison(c: Cursor) -> None:
    shape(c, Op[c.base], TimingClass.SETP if c.base == "HSETP2" else TimingClass.FP16)
    bf16, both = _half_type(c), c.has("H_AND")
    one = c.base == "HSET2" and c.has("BF")
    comparison = c.need(COMPARES, "comparison")
    how = c.pick(BOOLEANS, BoolOp.AND)
    c.out.x = bf16 | comparison << 12 | how << 16 | both << 18 | one << 19
    if c.base == "HSETP2":
        c.out.pd, c.out.pe = c.predicate_destination(), c.predicate_destination()
    else:
        c.destination()
    for k, slot in enumerate("ab"):
        c.out.x |= c.packed_source(slot, bf16) << (4 + 2 * k)
    c.out.pa = c.predicate_source()


@opcode("HMNMX2")
def half_extreme(c: Cursor) -> None:
    shape(c, Op.HMNMX2, TimingClass.ALU)
    bf16 = _half_type(c)
    c.out.x = bf16 | c.has("NAN") << 20
    c.destination()
    for k, slot in enumerate("ab"):
        c.out.x |= c.packed_source(slot, bf16) << (4 + 2 * k)
    c.out.pa = c.predicate_source()


# --- float64


@opcode("DADD", "DMUL", "DFMA")
def double_arithmetic(c: Cursor) -> None:
    shape(c, Op[c.base], TimingClass.FP64)
    c.out.x = c.pick(ROUNDINGS, Rounding.RN)
    c.destination(2)
    for slot in "abc" if c.base == "DFMA" else "ab":
        c.source(slot, 2, immediate="double")


@opcode("DSETP")
def double_comparison(c: Cursor) -> None:
    shape(c, Op.DSETP, TimingClass.FP64)
    c.out.x = c.need(COMPARES | {"MIN": 256, "MAX": 512}, "comparison") | c.pick(BOOLEANS, BoolOp.AND) << 4
    c.out.pd, c.out.pe = c.predicate_destination(), c.predicate_destination()
    c.source("a", 2, immediate="double")
    c.source("b", 2, immediate="double")
    c.out.pa = c.predicate_source()


@opcode("DMNMX")
def double_extreme(c: Cursor) -> None:
    shape(c, Op.DMNMX, TimingClass.FP64)
    c.destination(2)
    c.source("a", 2, immediate="double")
    c.source("b", 2, immediate="double")
    c.out.pa = c.predicate_source()


# --- tensor

#: shape -> registers of a and b by whether the elements are TF32
_HMMA = {
    "16816": (MmaShape.M16N8K16, 4, 2, TimingClass.HMMA_16816),
    "1688": (MmaShape.M16N8K8, 2, 1, TimingClass.HMMA_1688),
    "1684": (MmaShape.M16N8K4, 2, 1, TimingClass.HMMA_1688),
}
_IMMA = {
    "8816": (MmaShape.M8N8K16, 1, 1, 2),
    "16816": (MmaShape.M16N8K16, 2, 1, 4),
    "16832": (MmaShape.M16N8K32, 4, 2, 4),
}
_LAYOUTS = {"ROW": 0, "COL": 0}


@opcode("HMMA")
def half_product(c: Cursor) -> None:
    mma, a, b, cls = c.need(_HMMA, "shape that is known (16816, 1688, 1684)")
    sums_are_half = not c.has("F32")
    if sums_are_half and not c.has("F16"):
        raise SassError("it names no type of its sums")
    kind = c.pick({"BF16": NumberType.BF16, "TF32": NumberType.TF32, "F16": NumberType.F16}, NumberType.F16)
    if kind is NumberType.TF32 and mma is MmaShape.M16N8K8:
        a, b = 4, 2
    if (mma is MmaShape.M16N8K4) != (kind is NumberType.TF32) and mma is not MmaShape.M16N8K8:
        raise SassError("this shape does not go with this type")
    shape(c, Op.HMMA, cls)
    c.out.x = mma | kind << 8 | sums_are_half << 16
    sums = 2 if sums_are_half else 4
    c.destination(sums)
    c.source("a", a, suffixes=_LAYOUTS)
    c.source("b", b, suffixes=_LAYOUTS)
    c.source("c", sums)


@opcode("IMMA")
def integer_product(c: Cursor) -> None:
    shape(c, Op.IMMA, TimingClass.IMMA)
    mma, a, b, sums = c.need(_IMMA, "shape that is known (8816, 16816, 16832)")
    first = c.need({"S8": NumberType.S8, "U8": NumberType.U8}, "type that is known (S8, U8)")
    second = c.need({"S8": NumberType.S8, "U8": NumberType.U8}, "second type that is known (S8, U8)")
    c.out.x = mma | first << 8 | (first is not second) << 17 | c.has("SAT") << 18
    c.destination(sums)
    c.source("a", a, suffixes=_LAYOUTS)
    c.source("b", b, suffixes=_LAYOUTS)
    c.source("c", sums)


@opcode("DMMA")
def double_product(c: Cursor) -> None:
    shape(c, Op.DMMA, TimingClass.DMMA)
    if not c.has("884"):
        raise SassError("only DMMA.884 is known")
    c.destination(4)
    c.source("a", 2)
    c.source("b", 2)
    c.source("c", 4)


@opcode("MOVM")
def transpose(c: Cursor) -> None:
    shape(c, Op.MOVM, TimingClass.SHUFFLE)
    if not (c.has("16") and c.has("MT88")):
        raise SassError("only MOVM.16.MT88 is known")
    c.destination()
    c.source("a")
