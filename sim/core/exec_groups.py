"""Groups of instructions: decode one instruction's operands and call the function that computes it.

Each group is compiled on its own, for plain pointers, and reached by its address, so
that the core that calls it need not be optimised together with it. All take

* code : int32[n, len(Col)], decoded instructions, and pc, the index of one
* U : uint32[rows, 32], the register file, and base, the warp's first row
* preds : int64[16], the warp's predicates as lane masks
* mask : int64, the lanes that take part
* ctx : int64[CTX_SIZE], see `sim.core.context`
"""

from __future__ import annotations

from sim._jit import jit
from sim.core.context import CTX_SIZE
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
from sim.core.rows import carray, lanes, store, u32
from sim.isa import FLAG_EXTENDED, FLAG_UNIFORM, FULL_MASK, PREDICATES, PT, UPT, Col, Op

CODE_SHAPE = (1 << 24, len(Col))  #: of the array behind `code`, its length being unknown here
PREDICATE_SHAPE = (PREDICATES,)
CTX_SHAPE = (CTX_SIZE,)


@jit
def optional_predicate(preds, predicate):
    """A predicate that is an optional extra input: PT and UPT, the defaults, stand for none."""
    if predicate == PT or predicate == UPT:
        return 0
    return predicate_mask(preds, predicate)


@jit
def written_lanes(flags, mask):
    """Lanes whose destination changes: a uniform register is the same in all lanes."""
    return FULL_MASK if flags & FLAG_UNIFORM else mask


@jit
def write_predicates(code, pc, preds, pd, pe, mask):
    """Both predicate results."""
    write_predicate(preds, code[pc, Col.PD], pd, mask)
    write_predicate(preds, code[pc, Col.PE], pe, mask)


@jit
def integer_group(code_at, pc, U, base, preds_at, mask, ctx_at):
    """MOV to IABS, IDP, IMUL."""
    code, preds = carray(code_at, CODE_SHAPE), carray(preds_at, PREDICATE_SHAPE)
    op, x, smod, flags = code[pc, Col.OP], code[pc, Col.X], code[pc, Col.SMOD], code[pc, Col.FLAGS]
    written = written_lanes(flags, mask)
    d = row_of(code[pc, Col.D], base)
    a, b, c = row_of(code[pc, Col.A], base), row_of(code[pc, Col.B], base), row_of(code[pc, Col.C], base)
    pd = pe = 0
    if op == Op.LOP3:
        pd = logic3(U, d, a, b, c, smod, x, optional_predicate(preds, code[pc, Col.PA]), written)
    elif op == Op.SHF:
        funnel_shift(U, d, a, b, c, x, written)
    elif op == Op.ISETP:
        pa, pb = predicate_mask(preds, code[pc, Col.PA]), predicate_mask(preds, code[pc, Col.PB])
        pd, pe = integer_comparison(U, a, b, smod, x, pa, pb)
    elif op == Op.MOV or op == Op.SEL or op == Op.IMNMX or op == Op.IABS or op == Op.IDP:
        pa = predicate_mask(preds, code[pc, Col.PA])
        integer_selection(U, op, d, code[pc, Col.ND], a, b, c, smod, x, pa, written)
    else:
        carry_a = carry_b = 0
        if flags & FLAG_EXTENDED:
            carry_a = optional_predicate(preds, code[pc, Col.PA])
            carry_b = optional_predicate(preds, code[pc, Col.PB])
        pd, pe = integer_arithmetic(U, op, d, a, b, c, code[pc, Col.NC], smod, x, flags, carry_a, carry_b, written)
    write_predicates(code, pc, preds, pd, pe, written)


@jit
def warp_group(code_at, pc, U, base, preds_at, mask, ctx_at):
    """POPC to CSET without IDP and IMUL: bits of a word, and what needs the whole warp."""
    code, preds = carray(code_at, CODE_SHAPE), carray(preds_at, PREDICATE_SHAPE)
    op, x, smod, flags = code[pc, Col.OP], code[pc, Col.X], code[pc, Col.SMOD], code[pc, Col.FLAGS]
    written = written_lanes(flags, mask)
    d = row_of(code[pc, Col.D], base)
    a, b, c = row_of(code[pc, Col.A], base), row_of(code[pc, Col.B], base), row_of(code[pc, Col.C], base)
    pa = predicate_mask(preds, code[pc, Col.PA])
    pd = pe = 0
    if op == Op.SHFL:
        pd = shuffle(U, d, a, b, c, x, written)
    elif op == Op.S2R:
        special_register(U, d, code[pc, Col.ND], x, carray(ctx_at, CTX_SHAPE), written)
    elif op == Op.PRMT:
        permute_bytes(U, d, a, b, c, x, written)
    elif op == Op.PLOP3:
        pb, py = predicate_mask(preds, code[pc, Col.PB]), predicate_mask(preds, code[pc, Col.Y])
        pd, pe = predicate_logic(x & 255, pa, pb, py), predicate_logic((x >> 8) & 255, pa, pb, py)
    elif op == Op.VOTE:
        pd = vote(U, d, code[pc, Col.ND], x, pa, mask, written)
    elif op == Op.P2R:
        predicates_to_register(U, d, a, b, x, preds, written)
    elif op == Op.R2P:
        register_to_predicates(U, a, b, x, preds, written)
    elif op == Op.R2UR:
        broadcast_first(U, d, a, mask, FULL_MASK)
    elif op == Op.MATCH:
        pd = match(U, d, a, code[pc, Col.NA], x, mask, written)
    elif op == Op.REDUX:
        reduce_lanes(U, d, a, x, flags, mask, written)
    elif op == Op.CSET:
        store(U, d, u32(lanes(pa)) * (0x3F800000 if x & 1 else 0xFFFFFFFF), written)
    else:
        integer_bits(U, op, d, a, b, smod, x, written)
    write_predicates(code, pc, preds, pd, pe, written)


@jit
def float_group(code_at, pc, U, base, preds_at, mask, ctx_at):
    """FADD to FCHK, FSWZADD: float32."""
    code, preds = carray(code_at, CODE_SHAPE), carray(preds_at, PREDICATE_SHAPE)
    op, x, smod, flags = code[pc, Col.OP], code[pc, Col.X], code[pc, Col.SMOD], code[pc, Col.FLAGS]
    d = row_of(code[pc, Col.D], base)
    a, b, c = row_of(code[pc, Col.A], base), row_of(code[pc, Col.B], base), row_of(code[pc, Col.C], base)
    if op == Op.FADD or op == Op.FMUL or op == Op.FFMA:
        float_arithmetic(U, op, d, a, b, c, smod, x, flags, mask)
        return
    pa = predicate_mask(preds, code[pc, Col.PA])
    pd = pe = 0
    if op == Op.FSETP or op == Op.FSET:
        pd, pe = float_comparison(U, a, b, smod, x, flags, pa)
        if op == Op.FSET:
            float_set(U, d, x, pd, mask)
    elif op == Op.FSEL or op == Op.FMNMX:
        float_selection(U, op, d, a, b, smod, x, flags, pa, mask)
    elif op == Op.FCHK:
        pd = division_check(U, a, b, smod)
    else:
        swizzled_sum(U, d, a, b, x, mask)
    write_predicates(code, pc, preds, pd, pe, mask)


@jit
def conversion_group(code_at, pc, U, base, preds_at, mask, ctx_at):
    """MUFU, I2F to F2FP: special functions and conversions."""
    code = carray(code_at, CODE_SHAPE)
    op, x, smod, flags = code[pc, Col.OP], code[pc, Col.X], code[pc, Col.SMOD], code[pc, Col.FLAGS]
    d, a = row_of(code[pc, Col.D], base), row_of(code[pc, Col.A], base)
    if op == Op.MUFU:
        special_function(U, d, a, smod, x, mask)
    elif op == Op.F2FP:
        pack_halves(U, d, a, row_of(code[pc, Col.B], base), smod, x, mask)
    elif op == Op.I2F:
        integer_to_float(U, d, a, smod, x, flags, mask)
    elif op == Op.F2I:
        float_to_integer(U, d, a, smod, x, flags, mask)
    elif op == Op.I2I:
        integer_to_integer(U, d, a, smod, x, mask)
    else:
        float_to_float(U, op, d, a, smod, x, flags, mask)


@jit
def half_and_double_group(code_at, pc, U, base, preds_at, mask, ctx_at):
    """HADD2 to HSET2, DADD to DMNMX."""
    code, preds = carray(code_at, CODE_SHAPE), carray(preds_at, PREDICATE_SHAPE)
    op, x, smod, flags = code[pc, Col.OP], code[pc, Col.X], code[pc, Col.SMOD], code[pc, Col.FLAGS]
    d = row_of(code[pc, Col.D], base)
    a, b, c = row_of(code[pc, Col.A], base), row_of(code[pc, Col.B], base), row_of(code[pc, Col.C], base)
    pa = predicate_mask(preds, code[pc, Col.PA])
    pd = pe = 0
    if op == Op.HADD2 or op == Op.HMUL2 or op == Op.HFMA2:
        half_arithmetic(U, op, d, a, b, c, smod, x, flags, mask)
    elif op == Op.HSETP2 or op == Op.HSET2:
        pd, pe = half_comparison(U, op, d, a, b, smod, x, pa, mask)
    elif op == Op.HMNMX2:
        half_minimum(U, d, a, b, smod, x, pa, mask)
    elif op == Op.DSETP:
        pd, pe = double_comparison(U, a, b, smod, x, pa)
    elif op == Op.DMNMX:
        double_minimum(U, d, a, b, smod, pa, mask)
    else:
        double_arithmetic(U, op, d, a, b, c, smod, x, mask)
    write_predicates(code, pc, preds, pd, pe, mask)


@jit
def tensor_group(code_at, pc, U, base, preds_at, mask, ctx_at):
    """HMMA, IMMA, DMMA, MOVM."""
    code = carray(code_at, CODE_SHAPE)
    op, x = code[pc, Col.OP], code[pc, Col.X]
    d = row_of(code[pc, Col.D], base)
    a, b, c = row_of(code[pc, Col.A], base), row_of(code[pc, Col.B], base), row_of(code[pc, Col.C], base)
    if op == Op.HMMA:
        float_product(U, d, a, b, c, x, mask)
    elif op == Op.IMMA:
        integer_product(U, d, a, b, c, x, mask)
    elif op == Op.DMMA:
        double_product(U, d, a, b, c, mask)
    else:
        transpose(U, d, a, mask)
