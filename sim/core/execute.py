"""What one instruction computes: decodes its operands and hands them to the function of its group.

`execute` covers the register-to-register instructions; `sim.core.exec_memory` the
memory instructions; control flow and barriers belong to the warp scheduler.
"""

from __future__ import annotations

from typing import Any

from sim._jit import jit
from sim.core.exec_convert import (
    float_to_float,
    float_to_integer,
    integer_to_float,
    integer_to_integer,
    pack_halves,
)
from sim.core.exec_double import double_arithmetic, double_comparison, double_minimum
from sim.core.exec_float import (
    division_check,
    float_arithmetic,
    float_comparison,
    float_selection,
    float_set,
    swizzled_sum,
)
from sim.core.exec_half import half_arithmetic, half_comparison, half_minimum
from sim.core.exec_integer import (
    funnel_shift,
    integer_arithmetic,
    integer_bits,
    integer_comparison,
    integer_selection,
    logic3,
    permute_bytes,
)
from sim.core.exec_special import special_function
from sim.core.exec_tensor import double_product, float_product, integer_product, transpose
from sim.core.exec_warp import (
    broadcast_first,
    match,
    predicate_logic,
    predicates_to_register,
    reduce_lanes,
    register_to_predicates,
    shuffle,
    special_register,
    vote,
)
from sim.core.operands import predicate_mask, row_of, write_predicate
from sim.core.rows import lanes, store, u32
from sim.isa import FLAG_EXTENDED, FLAG_UNIFORM, FULL_MASK, PT, UPT, Col, Op


@jit
def execute(code: Any, pc: Any, U: Any, base: Any, preds: Any, mask: Any, ctx: Any) -> None:
    """Perform register-to-register instruction `pc` for one warp.

    Parameters
    ----------
    code : int32[n, len(Col)], decoded instructions
    pc : index of the instruction (groups 0, 32, 64 and 128 of `Op`)
    U : uint32[rows, 32], the SM's register file
    base : the warp's first row; its registers, uniform registers and 8 rows that RZ destinations write follow
    preds : int64[16], the warp's predicates as lane masks; 7 and 15 stay all ones
    mask : int64, active lanes whose guard is true; nothing changes when it is 0
    ctx : int64[len(Ctx)], who the warp is (`sim.core.exec_warp.Ctx`)
    """
    if mask == 0:
        return
    op = code[pc, Col.OP]
    written = FULL_MASK if code[pc, Col.FLAGS] & FLAG_UNIFORM else mask
    pd = pe = 0
    if op < Op.POPC:
        pd, pe = _integer(code, pc, U, base, preds, written)
    elif op < Op.FADD:
        pd, pe = _bits_and_warp(code, pc, U, base, preds, mask, written, ctx)
    elif op < Op.HADD2:
        pd, pe = _float(code, pc, U, base, preds, written)
    elif op < Op.LD:
        pd, pe = _half_and_double(code, pc, U, base, preds, written)
    else:
        _tensor(code, pc, U, base, written)
    write_predicate(preds, code[pc, Col.PD], pd, written)
    write_predicate(preds, code[pc, Col.PE], pe, written)


@jit
def carry_mask(preds: Any, predicate: Any) -> Any:
    """A predicate that is an optional extra input: PT and UPT, the defaults, stand for none."""
    if predicate == PT or predicate == UPT:
        return 0
    return predicate_mask(preds, predicate)


@jit
def _integer(code: Any, pc: Any, U: Any, base: Any, preds: Any, mask: Any) -> Any:
    """MOV to IABS, LEA and ISETP among them."""
    op, x, smod, flags = code[pc, Col.OP], code[pc, Col.X], code[pc, Col.SMOD], code[pc, Col.FLAGS]
    d = row_of(code[pc, Col.D], base)
    a, b, c = row_of(code[pc, Col.A], base), row_of(code[pc, Col.B], base), row_of(code[pc, Col.C], base)
    pa, pb = code[pc, Col.PA], code[pc, Col.PB]
    if op == Op.ISETP:
        return integer_comparison(
            U, a, b, smod, x, predicate_mask(preds, pa), predicate_mask(preds, pb)
        )
    if op == Op.LOP3:
        return logic3(U, d, a, b, c, smod, x, carry_mask(preds, pa), mask), 0
    if op == Op.SHF:
        funnel_shift(U, d, a, b, c, x, mask)
        return 0, 0
    if op == Op.MOV or op == Op.SEL or op == Op.IMNMX or op == Op.IABS:
        integer_selection(
            U, op, d, code[pc, Col.ND], a, b, c, smod, x, predicate_mask(preds, pa), mask
        )
        return 0, 0
    carry_a = carry_b = 0
    if flags & FLAG_EXTENDED:
        carry_a, carry_b = carry_mask(preds, pa), carry_mask(preds, pb)
    return integer_arithmetic(U, op, d, a, b, c, code[pc, Col.NC], smod, x, flags, carry_a, carry_b, mask)


@jit
def _bits_and_warp(
    code: Any, pc: Any, U: Any, base: Any, preds: Any, mask: Any, written: Any, ctx: Any
) -> Any:
    """POPC to CSET: bit counts, permutes, and what needs the whole warp."""
    op, x, smod, flags = code[pc, Col.OP], code[pc, Col.X], code[pc, Col.SMOD], code[pc, Col.FLAGS]
    d = row_of(code[pc, Col.D], base)
    a, b, c = row_of(code[pc, Col.A], base), row_of(code[pc, Col.B], base), row_of(code[pc, Col.C], base)
    pa = predicate_mask(preds, code[pc, Col.PA])
    if op == Op.PRMT:
        permute_bytes(U, d, a, b, c, x, written)
    elif op == Op.S2R:
        special_register(U, d, code[pc, Col.ND], x, ctx, written)
    elif op == Op.PLOP3:
        pb, pc_mask = predicate_mask(preds, code[pc, Col.PB]), predicate_mask(preds, code[pc, Col.Y])
        return predicate_logic(x & 255, pa, pb, pc_mask), predicate_logic((x >> 8) & 255, pa, pb, pc_mask)
    elif op == Op.P2R:
        predicates_to_register(U, d, a, b, x, preds, written)
    elif op == Op.R2P:
        register_to_predicates(U, a, b, x, preds, written)
    elif op == Op.R2UR:
        broadcast_first(U, d, a, mask, FULL_MASK)
    elif op == Op.VOTE:
        return vote(U, d, code[pc, Col.ND], x, pa, mask, written), 0
    elif op == Op.SHFL:
        return shuffle(U, d, a, b, c, x, written), 0
    elif op == Op.MATCH:
        return match(U, d, a, code[pc, Col.NA], x, mask, written), 0
    elif op == Op.REDUX:
        reduce_lanes(U, d, a, x, flags, mask, written)
    elif op == Op.CSET:
        store(U, d, u32(lanes(pa)) * (0x3F800000 if x & 1 else 0xFFFFFFFF), written)
    elif op == Op.IDP:
        integer_selection(U, op, d, 1, a, b, c, smod, x, pa, written)
    elif op == Op.IMUL:
        return integer_arithmetic(U, op, d, a, b, c, 1, smod, x, flags, 0, 0, written)
    elif op == Op.POPC or op == Op.FLO or op == Op.BREV or op == Op.SGXT or op == Op.BMSK:
        integer_bits(U, op, d, a, b, smod, x, written)
    return 0, 0


@jit
def _float(code: Any, pc: Any, U: Any, base: Any, preds: Any, mask: Any) -> Any:
    """FADD to FSWZADD: float32, conversions, special functions."""
    op, x, smod, flags = code[pc, Col.OP], code[pc, Col.X], code[pc, Col.SMOD], code[pc, Col.FLAGS]
    d = row_of(code[pc, Col.D], base)
    a, b = row_of(code[pc, Col.A], base), row_of(code[pc, Col.B], base)
    if op == Op.FADD or op == Op.FMUL or op == Op.FFMA:
        float_arithmetic(U, op, d, a, b, row_of(code[pc, Col.C], base), smod, x, flags, mask)
        return 0, 0
    pa = predicate_mask(preds, code[pc, Col.PA])
    if op == Op.FSETP:
        return float_comparison(U, a, b, smod, x, flags, pa)
    if op == Op.FSET:
        float_set(U, d, x, float_comparison(U, a, b, smod, x, flags, pa)[0], mask)
    elif op == Op.FSEL or op == Op.FMNMX:
        float_selection(U, op, d, a, b, smod, x, flags, pa, mask)
    elif op == Op.MUFU:
        special_function(U, d, a, smod, x, mask)
    elif op == Op.FCHK:
        return division_check(U, a, b, smod), 0
    elif op == Op.FSWZADD:
        swizzled_sum(U, d, a, b, x, mask)
    elif op == Op.F2FP:
        pack_halves(U, d, a, b, smod, x, mask)
    elif op == Op.I2F:
        integer_to_float(U, d, a, smod, x, flags, mask)
    elif op == Op.F2I:
        float_to_integer(U, d, a, smod, x, flags, mask)
    elif op == Op.F2F or op == Op.FRND:
        float_to_float(U, op, d, a, smod, x, flags, mask)
    elif op == Op.I2I:
        integer_to_integer(U, d, a, smod, x, mask)
    return 0, 0


@jit
def _half_and_double(code: Any, pc: Any, U: Any, base: Any, preds: Any, mask: Any) -> Any:
    """HADD2 to HSET2, DADD to DMNMX."""
    op, x, smod, flags = code[pc, Col.OP], code[pc, Col.X], code[pc, Col.SMOD], code[pc, Col.FLAGS]
    d = row_of(code[pc, Col.D], base)
    a, b, c = row_of(code[pc, Col.A], base), row_of(code[pc, Col.B], base), row_of(code[pc, Col.C], base)
    pa = predicate_mask(preds, code[pc, Col.PA])
    if op == Op.HADD2 or op == Op.HMUL2 or op == Op.HFMA2:
        half_arithmetic(U, op, d, a, b, c, smod, x, flags, mask)
    elif op == Op.HSETP2 or op == Op.HSET2:
        return half_comparison(U, op, d, a, b, smod, x, pa, mask)
    elif op == Op.HMNMX2:
        half_minimum(U, d, a, b, smod, x, pa, mask)
    elif op == Op.DADD or op == Op.DMUL or op == Op.DFMA:
        double_arithmetic(U, op, d, a, b, c, smod, x, mask)
    elif op == Op.DSETP:
        return double_comparison(U, a, b, smod, x, pa)
    elif op == Op.DMNMX:
        double_minimum(U, d, a, b, smod, pa, mask)
    return 0, 0


@jit
def _tensor(code: Any, pc: Any, U: Any, base: Any, mask: Any) -> None:
    """HMMA, IMMA, DMMA, MOVM."""
    op, x = code[pc, Col.OP], code[pc, Col.X]
    d = row_of(code[pc, Col.D], base)
    a, b, c = row_of(code[pc, Col.A], base), row_of(code[pc, Col.B], base), row_of(code[pc, Col.C], base)
    if op == Op.HMMA:
        float_product(U, d, a, b, c, x, mask)
    elif op == Op.IMMA:
        integer_product(U, d, a, b, c, x, mask)
    elif op == Op.DMMA:
        double_product(U, d, a, b, c, mask)
    elif op == Op.MOVM:
        transpose(U, d, a, mask)
