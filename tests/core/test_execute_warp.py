"""Special registers, predicates, votes, shuffles, matches and reductions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.context import Ctx
from sim.isa import FLAG_SIGNED, FLAG_UNIFORM, FULL_MASK, PT, AtomicOp, Op, SpecialRegister
from sim.program import Imm, UReg
from tests.core.one_instruction import UNTOUCHED, ZERO, lanes_of, mask_of, run_one
from tests.core.values import few, integers, longs, masks, unsigned

LANE = np.arange(32)


@pytest.mark.parametrize("dims", [(96, 1, 1), (8, 4, 3), (5, 7, 2), (1, 1, 64)])
@pytest.mark.parametrize("warp", [0, 2])
def test_thread_index_counts_x_first(dims, warp):
    context = {Ctx.BLOCK_DIM_X: dims[0], Ctx.BLOCK_DIM_Y: dims[1], Ctx.BLOCK_DIM_Z: dims[2], Ctx.WARP: warp}
    linear = warp * 32 + LANE
    right = (linear % dims[0], linear // dims[0] % dims[1], linear // dims[0] // dims[1])
    for register, values in zip(("TID_X", "TID_Y", "TID_Z"), right, strict=True):
        out = run_one(Op.S2R, x=SpecialRegister[register], context=context)
        assert (out.d[0] == values).all()


CONTEXT = {
    Ctx.WARP: 3, Ctx.BLOCK_X: 11, Ctx.BLOCK_Y: 12, Ctx.BLOCK_Z: 13, Ctx.BLOCK_DIM_X: 128, Ctx.BLOCK_DIM_Y: 2,
    Ctx.BLOCK_DIM_Z: 4, Ctx.GRID_DIM_X: 21, Ctx.GRID_DIM_Y: 22, Ctx.GRID_DIM_Z: 23, Ctx.SM: 77,
    Ctx.CLOCK: 5 << 32 | 6, Ctx.NANOSECONDS: 7 << 32 | 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("register", "value"),
    [
        ("CTAID_X", 11), ("CTAID_Y", 12), ("CTAID_Z", 13), ("WARPID", 3), ("SMID", 77), ("CLOCKLO", 6),
        ("CLOCKHI", 5), ("GLOBALTIMERLO", 8), ("GLOBALTIMERHI", 7), ("NTID_X", 128), ("NTID_Y", 2),
        ("NTID_Z", 4), ("NCTAID_X", 21), ("NCTAID_Y", 22), ("NCTAID_Z", 23), ("CGACTAID", 0),
    ],
)  # fmt: skip
def test_special_registers_read_the_context(register, value):
    out = run_one(Op.S2R, x=SpecialRegister[register], context=CONTEXT)
    assert (out.d[0] == value).all()


def test_a_64_bit_clock_read_fills_two_registers():
    out = run_one(Op.S2R, x=SpecialRegister.CLOCKLO, nd=2, context=CONTEXT)
    assert (out.double == CONTEXT[Ctx.CLOCK]).all()


@pytest.mark.parametrize(
    ("register", "rule"),
    [
        ("LANEID", lambda k: k),
        ("EQMASK", lambda k: 1 << k),
        ("LTMASK", lambda k: (1 << k) - 1),
        ("LEMASK", lambda k: (2 << k) - 1),
        ("GTMASK", lambda k: FULL_MASK & ~((2 << k) - 1)),
        ("GEMASK", lambda k: FULL_MASK & ~((1 << k) - 1)),
    ],
)
def test_lane_registers(register, rule):
    out = run_one(Op.S2R, x=SpecialRegister[register])
    assert out.d[0].tolist() == [rule(k) for k in range(32)]


@few
@given(st.integers(0, 255), st.integers(0, 255), *[st.integers(0, FULL_MASK)] * 3, masks)
def test_plop3_is_two_tables_of_three_predicates(first, second, p, q, r, mask):
    out = run_one(Op.PLOP3, x=first | second << 8, pa=2, pb=3 + 16, y=4, preds={2: p, 3: q, 4: r}, mask=mask)
    for lane in range(32):
        entry = (p >> lane & 1) * 4 + (~q >> lane & 1) * 2 + (r >> lane & 1)
        active = mask >> lane & 1
        assert out.pd[lane] == bool(active and first >> entry & 1)
        assert out.pe[lane] == bool(active and second >> entry & 1)


@few
@given(integers, st.lists(st.integers(0, FULL_MASK), min_size=7, max_size=7), st.integers(0, 127), st.integers(0, 3))
def test_p2r_packs_predicates_into_a_byte_and_r2p_takes_them_back(a, values, chosen, byte):
    preds = dict(enumerate(values))
    out = run_one(Op.P2R, a, Imm(chosen), x=byte, preds=preds)
    packed = sum(((np.int64(v) >> LANE & 1) << k) for k, v in enumerate(values)) & chosen
    right = (a & ~np.uint32(chosen << 8 * byte)) | (packed << 8 * byte).astype(np.uint32)
    assert (out.d[0] == right).all()
    back = run_one(Op.R2P, a, Imm(chosen), x=byte, preds=preds, pd=PT, pe=PT)
    for k, old in enumerate(values):
        bits = mask_of((a >> np.uint32(8 * byte + k)) & 1)
        assert back.preds[k] == (bits if chosen >> k & 1 else old)


@few
@given(st.integers(0, FULL_MASK), masks)
def test_vote_counts_active_lanes_only(p, mask):
    ballot = p & mask
    hits = {0: ballot == mask, 1: ballot != 0, 2: ballot in (0, mask)}
    for mode, hit in hits.items():
        out = run_one(Op.VOTE, x=mode, pa=2, preds={2: p}, mask=mask)
        assert (out.d[0][lanes_of(mask)] == ballot).all()
        assert (out.d[0][~lanes_of(mask)] == UNTOUCHED).all()
        assert mask_of(out.pd) == (mask if hit else 0)


def test_a_vote_into_a_uniform_register_reaches_all_lanes():
    out = run_one(Op.VOTE, x=1, pa=2, preds={2: 0xFF}, mask=0x3C, flags=FLAG_UNIFORM, dst=UReg(1))
    assert (out.uniform[1] == 0x3C).all()


def shuffled(a, b, c, mode):
    """PTX's description of shfl."""
    values, inside = [], []
    for lane in range(32):
        delta, clamp, segment = int(b[lane]) & 31, int(c[lane]) & 31, int(c[lane]) >> 8 & 31
        last = lane & segment | clamp & ~segment
        source = {
            0: lane & segment | delta & ~segment, 1: lane - delta, 2: lane + delta, 3: lane ^ delta,
        }[mode]  # fmt: skip
        ok = source >= last if mode == 1 else source <= last
        inside.append(ok)
        values.append(int(a[source if ok else lane]))
    return values, inside


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("width", [1, 2, 8, 16, 32])
@few
@given(integers, st.integers(0, 31), masks)
def test_shfl_follows_ptx(mode, width, a, delta, mask):
    b = np.full(32, delta, np.uint32) if mode else (LANE * 7 + delta).astype(np.uint32)
    c = np.full(32, (32 - width) << 8 | (0 if mode == 1 else 31), np.uint32)
    out = run_one(Op.SHFL, a, b, c, x=mode, mask=mask)
    values, inside = shuffled(a, b, c, mode)
    active = lanes_of(mask)
    assert (out.d[0][active] == np.array(values, np.uint32)[active]).all()
    assert (out.pd == (active & inside)).all()


@few
@given(integers, masks)
def test_match_any_finds_equal_lanes(a, mask):
    a = a & np.uint32(0x80000001)
    out = run_one(Op.MATCH, a, mask=mask)
    for lane in np.flatnonzero(lanes_of(mask)):
        assert out.d[0][lane] == mask_of(a == a[lane]) & mask


@few
@given(longs, masks, st.booleans())
def test_match_all_asks_whether_64_bit_values_agree(a, mask, same):
    if same:
        a = np.full(32, a[0])
    out = run_one(Op.MATCH, a, x=1, mask=mask)
    active = lanes_of(mask)
    agree = len(set(a[active].tolist())) == 1
    assert (out.d[0][active] == (mask if agree else 0)).all()
    assert mask_of(out.pd) == (mask if agree else 0)


REDUCTIONS = {
    AtomicOp.ADD: sum, AtomicOp.MIN: min, AtomicOp.MAX: max,
    AtomicOp.AND: lambda v: int(np.bitwise_and.reduce(v)), AtomicOp.OR: lambda v: int(np.bitwise_or.reduce(v)),
    AtomicOp.XOR: lambda v: int(np.bitwise_xor.reduce(v)),
}  # fmt: skip


@pytest.mark.parametrize("operation", REDUCTIONS)
@pytest.mark.parametrize("flags", [0, FLAG_SIGNED])
@few
@given(integers, masks)
def test_redux_reduces_active_lanes(operation, flags, a, mask):
    values = a.view(np.int32 if flags else np.uint32)[lanes_of(mask)].astype(np.int64).tolist()
    out = run_one(Op.REDUX, a, x=operation, flags=flags, mask=mask)
    assert (out.d[0][lanes_of(mask)] == REDUCTIONS[operation](values) & FULL_MASK).all()


@few
@given(integers, masks)
def test_r2ur_takes_the_first_active_lane(a, mask):
    out = run_one(Op.R2UR, a, mask=mask, dst=UReg(2), flags=FLAG_UNIFORM)
    assert (out.uniform[2] == a[(mask & -mask).bit_length() - 1]).all()


def test_nothing_happens_without_active_lanes():
    out = run_one(Op.VOTE, x=0, pa=7, mask=0, preds={0: 5})
    assert (out.d == UNTOUCHED).all() and out.preds[0] == 5
    assert unsigned(run_one(Op.MOV, ZERO, mask=0).d[0]) == [UNTOUCHED] * 32
