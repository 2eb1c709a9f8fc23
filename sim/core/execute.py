"""What one instruction computes: decodes its operands and hands them to the function of its group.

`execute` covers the register-to-register instructions; `sim.core.exec_memory` the
memory instructions; control flow and barriers belong to the warp scheduler.
"""

from __future__ import annotations

from typing import Any

from sim._jit import jit
from sim.core.exec_integer import (
    funnel_shift,
    integer_arithmetic,
    integer_bits,
    integer_comparison,
    integer_selection,
    logic3,
    permute_bytes,
)
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
    elif op < 32:
        pd, pe = _bits_and_warp(code, pc, U, base, preds, mask, written, ctx)
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
