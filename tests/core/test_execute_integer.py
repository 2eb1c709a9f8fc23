"""32-bit integer instructions against plain Python arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.isa import (
    FLAG_EXTENDED,
    FLAG_SIGNED,
    FULL_MASK,
    SMOD_NEG_A,
    SMOD_NEG_B,
    SMOD_NEG_C,
    SMOD_NOT_B,
    BoolOp,
    Compare,
    Op,
    ShiftMode,
)
from tests.core.one_instruction import ZERO, lanes_of, run_one
from tests.core.values import INTEGER_EDGES, few, integers, longs, masks, signed, small_row, unsigned, wrapped

MASK32 = 0xFFFFFFFF


@few
@given(integers, integers, integers)
def test_iadd3_adds_and_carries_into_two_predicates(a, b, c):
    out = run_one(Op.IADD3, a, b, c)
    totals = [x + y + z for x, y, z in zip(unsigned(a), unsigned(b), unsigned(c), strict=True)]
    assert (out.d[0] == wrapped(totals)).all()
    assert out.pd.tolist() == [t >> 32 >= 1 for t in totals]
    assert out.pe.tolist() == [t >> 32 >= 2 for t in totals]


@few
@given(integers, integers)
def test_iadd3_with_a_negated_source_subtracts_and_carries_where_nothing_is_borrowed(a, b):
    out = run_one(Op.IADD3, a, b, ZERO, smod=SMOD_NEG_B)
    assert (out.d[0] == a - b).all()
    assert out.pd.tolist() == (a >= b).tolist()


@few
@given(longs, longs)
def test_iadd3_and_iadd3_x_make_a_64_bit_sum(a, b):
    low = run_one(Op.IADD3, a.astype(np.uint32), b.astype(np.uint32), ZERO)
    high_a, high_b = (a >> np.uint64(32)).astype(np.uint32), (b >> np.uint64(32)).astype(np.uint32)
    carry = {2: int(low.preds[0]), 3: 0}
    high = run_one(Op.IADD3, high_a, high_b, ZERO, flags=FLAG_EXTENDED, pa=2, pb=3, preds=carry)
    assert (low.d[0] == (a + b).astype(np.uint32)).all()
    assert (high.d[0] == ((a + b) >> np.uint64(32)).astype(np.uint32)).all()


@few
@given(longs, longs)
def test_iadd3_and_iadd3_x_with_an_inverted_source_make_a_64_bit_difference(a, b):
    low = run_one(Op.IADD3, a.astype(np.uint32), b.astype(np.uint32), ZERO, smod=SMOD_NEG_B)
    high_a, high_b = (a >> np.uint64(32)).astype(np.uint32), (b >> np.uint64(32)).astype(np.uint32)
    carry = {2: int(low.preds[0])}
    high = run_one(Op.IADD3, high_a, high_b, ZERO, flags=FLAG_EXTENDED, smod=SMOD_NOT_B, pa=2, preds=carry)
    assert (high.d[0] == ((a - b) >> np.uint64(32)).astype(np.uint32)).all()


@few
@given(integers, integers, integers)
def test_imad_keeps_the_low_word(a, b, c):
    assert (run_one(Op.IMAD, a, b, c).d[0] == a * b + c).all()
    assert (run_one(Op.IMAD, a, b, c, smod=SMOD_NEG_C).d[0] == a * b - c).all()


@few
@given(integers, integers, longs)
def test_imad_wide_unsigned_is_64_bits_with_carry(a, b, c):
    out = run_one(Op.IMAD_WIDE, a, b, c, nd=2)
    totals = [x * y + z for x, y, z in zip(unsigned(a), unsigned(b), unsigned(c), strict=True)]
    assert (out.double == wrapped(totals, 64)).all()
    assert out.pd.tolist() == [t >> 64 != 0 for t in totals]


@few
@given(integers, integers, longs)
def test_imad_wide_signed(a, b, c):
    out = run_one(Op.IMAD_WIDE, a, b, c, nd=2, flags=FLAG_SIGNED)
    totals = [x * y + z for x, y, z in zip(signed(a), signed(b), unsigned(c), strict=True)]
    assert (out.double == wrapped(totals, 64)).all()


@few
@given(integers, integers, longs)
def test_imad_hi_adds_a_64_bit_addend_before_it_takes_the_high_word(a, b, c):
    out = run_one(Op.IMAD_HI, a, b, c)
    totals = [(x * y + z) >> 32 for x, y, z in zip(unsigned(a), unsigned(b), unsigned(c), strict=True)]
    assert (out.d[0] == wrapped(totals)).all()


@few
@given(integers, integers, integers)
def test_imad_hi_adds_a_32_bit_addend_after(a, b, c):
    out = run_one(Op.IMAD_HI, a, b, c, flags=FLAG_SIGNED)
    totals = [(x * y >> 32) + z for x, y, z in zip(signed(a), signed(b), unsigned(c), strict=True)]
    assert (out.d[0] == wrapped(totals)).all()


@few
@given(integers, integers, integers, st.integers(0, 255), masks)
def test_lop3_is_its_table_bit_by_bit(a, b, c, table, mask):
    out = run_one(Op.LOP3, a, b, c, x=table, mask=mask)
    right = np.zeros(32, np.uint32)
    for entry in range(8):
        if table >> entry & 1:
            right |= (a if entry & 4 else ~a) & (b if entry & 2 else ~b) & (c if entry & 1 else ~c)
    active = lanes_of(mask)
    assert (out.d[0][active] == right[active]).all()
    assert (out.pd == (active & (right != 0))).all()


SHIFTS = {
    "left": 0,
    "left high": ShiftMode.HI,
    "right": ShiftMode.RIGHT,
    "right high": ShiftMode.RIGHT | ShiftMode.HI,
    "right signed high": ShiftMode.RIGHT | ShiftMode.HI | ShiftMode.SIGNED,
    "right signed": ShiftMode.RIGHT | ShiftMode.SIGNED,
}


@pytest.mark.parametrize("mode", SHIFTS)
@pytest.mark.parametrize("wrap", [0, ShiftMode.WRAP])
@pytest.mark.parametrize("wide", [0, ShiftMode.WIDE])
@few
@given(integers, integers, small_row(INTEGER_EDGES, 70))
def test_shf_shifts_the_pair_and_keeps_one_word(mode, wrap, wide, a, c, amounts):
    bits = SHIFTS[mode] | wrap | wide
    out = run_one(Op.SHF, a, amounts, c, x=int(bits))
    right = []
    for low, high, n in zip(unsigned(a), unsigned(c), unsigned(amounts), strict=True):
        limit = 64 if wide else 32
        n = n % limit if wrap else min(n, limit)
        whole = low | high << 32
        if bits & ShiftMode.SIGNED and whole >> 63:
            whole -= 1 << 64
        whole = whole >> n if bits & ShiftMode.RIGHT else whole << n
        right.append(whole >> 32 if bits & ShiftMode.HI else whole)
    assert (out.d[0] == wrapped(right)).all()


@few
@given(integers, integers, st.integers(0, 31))
def test_lea_shifts_adds_and_carries(a, b, n):
    out = run_one(Op.LEA, a, b, x=n)
    totals = [(x << n & MASK32) + y for x, y in zip(unsigned(a), unsigned(b), strict=True)]
    assert (out.d[0] == wrapped(totals)).all()
    assert out.pd.tolist() == [t >> 32 != 0 for t in totals]


@few
@given(longs, longs, st.integers(0, 31))
def test_lea_and_lea_hi_x_make_a_64_bit_address(a, b, n):
    low_a, high_a = a.astype(np.uint32), (a >> np.uint64(32)).astype(np.uint32)
    low_b, high_b = b.astype(np.uint32), (b >> np.uint64(32)).astype(np.uint32)
    low = run_one(Op.LEA, low_a, low_b, x=n)
    carry = {2: int(low.preds[0])}
    high = run_one(Op.LEA_HI, low_a, high_b, high_a, x=n, flags=FLAG_EXTENDED, pa=2, preds=carry)
    right = (a << np.uint64(n)) + b
    assert (low.d[0] == right.astype(np.uint32)).all()
    assert (high.d[0] == (right >> np.uint64(32)).astype(np.uint32)).all()


@few
@given(integers, integers, st.integers(0, 31))
def test_lea_hi_signed_extends_its_source(a, b, n):
    out = run_one(Op.LEA_HI, a, b, x=n, flags=FLAG_SIGNED)
    right = [((x << n) >> 32) + y for x, y in zip(signed(a), unsigned(b), strict=True)]
    assert (out.d[0] == wrapped(right)).all()


@few
@given(integers, integers)
def test_lea_with_a_negated_source(a, b):
    assert (run_one(Op.LEA, a, b, x=2, smod=SMOD_NEG_A).d[0] == b - (a << np.uint32(2))).all()


COMPARISONS = {
    Compare.F: lambda x, y: False,
    Compare.LT: lambda x, y: x < y,
    Compare.EQ: lambda x, y: x == y,
    Compare.LE: lambda x, y: x <= y,
    Compare.GT: lambda x, y: x > y,
    Compare.NE: lambda x, y: x != y,
    Compare.GE: lambda x, y: x >= y,
    Compare.T: lambda x, y: True,
}
BOOLEANS = {BoolOp.AND: lambda p, q: p and q, BoolOp.OR: lambda p, q: p or q, BoolOp.XOR: lambda p, q: p != q}


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("is_unsigned", [False, True])
@few
@given(integers, integers, st.sampled_from(list(BoolOp)), masks, st.integers(0, MASK32))
def test_isetp_compares_and_combines(comparison, is_unsigned, a, b, boolean, mask, third):
    b = np.where(np.arange(32) % 3 == 0, a, b)
    x = comparison | boolean << 4 | is_unsigned << 8
    out = run_one(Op.ISETP, a, b, x=x, pa=2, preds={2: third, 0: 0xF0F0F0F0, 1: 0x0F0F0F0F}, mask=mask)
    read = unsigned if is_unsigned else signed
    for lane, (p, q) in enumerate(zip(read(a), read(b), strict=True)):
        hit, other = COMPARISONS[comparison](p, q), bool(third >> lane & 1)
        if mask >> lane & 1:
            assert out.pd[lane] == BOOLEANS[boolean](hit, other)
            assert out.pe[lane] == BOOLEANS[boolean](not hit, other)
        else:
            assert out.pd[lane] == bool(0xF0F0F0F0 >> lane & 1)
            assert out.pe[lane] == bool(0x0F0F0F0F >> lane & 1)


@pytest.mark.parametrize("comparison", [Compare.LT, Compare.EQ, Compare.LE, Compare.GT, Compare.NE, Compare.GE])
@pytest.mark.parametrize("is_unsigned", [False, True])
@few
@given(longs, longs)
def test_isetp_ex_completes_a_64_bit_comparison(comparison, is_unsigned, a, b):
    lane = np.arange(32)
    high = np.uint64(0xFFFFFFFF00000000)
    b = np.where(lane % 3 == 0, a, np.where(lane % 3 == 1, (a & high) | (b & ~high), b))
    low = run_one(Op.ISETP, a.astype(np.uint32), b.astype(np.uint32), x=comparison | 256)
    high_a, high_b = (a >> np.uint64(32)).astype(np.uint32), (b >> np.uint64(32)).astype(np.uint32)
    x = comparison | is_unsigned << 8 | 512
    out = run_one(Op.ISETP, high_a, high_b, x=x, pb=3, preds={3: int(low.preds[0])})
    read = unsigned if is_unsigned else signed
    right = [COMPARISONS[comparison](p, q) for p, q in zip(read(a), read(b), strict=True)]
    assert out.pd.tolist() == right


@few
@given(integers, integers, st.integers(0, MASK32), masks)
def test_sel_and_imnmx_choose_by_predicate(a, b, choice, mask):
    where = lanes_of(choice)
    active = lanes_of(mask)
    sel = run_one(Op.SEL, a, b, pa=2, preds={2: choice}, mask=mask).d[0]
    assert (sel[active] == np.where(where, a, b)[active]).all()
    smaller = run_one(Op.IMNMX, a, b, pa=2 + 16, preds={2: choice}).d[0].view(np.int32)
    low, high = np.minimum(a.view(np.int32), b.view(np.int32)), np.maximum(a.view(np.int32), b.view(np.int32))
    assert (smaller == np.where(where, high, low)).all()
    below = run_one(Op.IMNMX, a, b, x=1, pa=2, preds={2: choice}).d[0]
    assert (below == np.where(where, np.minimum(a, b), np.maximum(a, b))).all()


@few
@given(integers)
def test_one_operand_instructions(a):
    assert (run_one(Op.MOV, a).d[0] == a).all()
    assert run_one(Op.IABS, a).d[0].tolist() == [abs(v) & MASK32 for v in signed(a)]
    assert run_one(Op.POPC, a).d[0].tolist() == [v.bit_count() for v in unsigned(a)]
    assert run_one(Op.BREV, a).d[0].tolist() == [int(f"{v:032b}"[::-1], 2) for v in unsigned(a)]


@few
@given(integers)
def test_flo_finds_the_leading_bit(a):
    highest = [v.bit_length() - 1 if v else MASK32 for v in unsigned(a)]
    assert run_one(Op.FLO, a).d[0].tolist() == highest
    assert run_one(Op.FLO, a, x=2).d[0].tolist() == [h if h == MASK32 else 31 - h for h in highest]
    signless = [v if v >= 0 else ~v for v in signed(a)]
    assert run_one(Op.FLO, a, x=1).d[0].tolist() == [v.bit_length() - 1 if v else MASK32 for v in signless]


@few
@given(integers, integers, integers)
def test_prmt_picks_bytes(a, b, c):
    out = run_one(Op.PRMT, a, b, c)
    right = []
    for low, selector, high in zip(unsigned(a), unsigned(b), unsigned(c), strict=True):
        data = (low | high << 32).to_bytes(8, "little")
        picked = []
        for k in range(4):
            nibble = selector >> 4 * k & 15
            byte = data[nibble & 7]
            picked.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
        right.append(int.from_bytes(bytes(picked), "little"))
    assert out.d[0].tolist() == right


@pytest.mark.parametrize(
    ("mode", "rule"),
    [
        (1, lambda n: [n, n + 1, n + 2, n + 3]),
        (2, lambda n: [n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8]),
        (3, lambda n: [n, n, n, n]),
        (4, lambda n: [max(k, n) for k in range(4)]),
        (5, lambda n: [min(k, n) for k in range(4)]),
        (6, lambda n: [n % 2 * 2, n % 2 * 2 + 1] * 2),
    ],
)
def test_prmt_modes_follow_ptx(mode, rule):
    a, c = np.full(32, 0x33221100, np.uint32), np.full(32, 0x77665544, np.uint32)
    out = run_one(Op.PRMT, a, np.arange(32, dtype=np.uint32), c, x=mode)
    right = [int.from_bytes(bytes(0x11 * k for k in rule(n % 4)), "little") for n in range(32)]
    assert out.d[0].tolist() == right


@few
@given(integers, small_row(INTEGER_EDGES, 40))
def test_sgxt_extends_from_a_width_and_bmsk_makes_a_mask(a, b):
    signs, zeros, runs = [], [], []
    for v, w in zip(unsigned(a), unsigned(b), strict=True):
        low = v & (1 << min(w, 32)) - 1
        zeros.append(low)
        signs.append(low - (1 << w) if 0 < w < 32 and low >> (w - 1) & 1 else low)
    assert run_one(Op.SGXT, a, b, x=1).d[0].tolist() == zeros
    assert (run_one(Op.SGXT, a, b).d[0] == wrapped(signs)).all()
    starts = np.arange(32, dtype=np.uint32) + 3
    runs = [((1 << min(w, 32)) - 1 << min(int(s), 32)) & MASK32 for s, w in zip(starts, unsigned(b), strict=True)]
    assert run_one(Op.BMSK, starts, b).d[0].tolist() == runs


@pytest.mark.parametrize("x", range(4))
@few
@given(integers, integers, integers)
def test_idp_sums_four_byte_products(x, a, b, c):
    p = a.view(np.uint8 if x & 1 else np.int8).reshape(32, 4).astype(np.int64)
    q = b.view(np.uint8 if x & 2 else np.int8).reshape(32, 4).astype(np.int64)
    right = wrapped([int(s) + z for s, z in zip((p * q).sum(1), unsigned(c), strict=True)])
    assert (run_one(Op.IDP, a, b, c, x=x).d[0] == right).all()


@few
@given(integers, integers, integers)
def test_idp_with_x_8_sums_differences_of_bytes_and_with_24_packs_them(a, b, c):
    p, q = (v.view(np.uint8).reshape(32, 4).astype(np.int64) for v in (a, b))
    sums = [int(s) + z for s, z in zip(abs(p - q).sum(1), unsigned(c), strict=True)]
    assert (run_one(Op.IDP, a, b, c, x=8).d[0] == wrapped(sums)).all()
    packed = abs(p - q).astype(np.uint8).view(np.uint32).ravel()
    assert (run_one(Op.IDP, a, b, ZERO, x=24).d[0] == packed).all()


@few
@given(integers, integers)
def test_imul_and_cset(a, b):
    assert (run_one(Op.IMUL, a, b).d[0] == a * b).all()
    choice = int(a[0])
    out = run_one(Op.CSET, pa=2, preds={2: choice})
    assert (out.d[0] == np.where(lanes_of(choice), FULL_MASK, 0)).all()
