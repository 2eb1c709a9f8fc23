"""32-bit integer instructions and moves, on whole rows.

Each function takes decoded operands (rows of `U`, masks of lanes) and returns the
lanes for which the instruction's predicate results PD and PE are true.
"""

from __future__ import annotations

import numpy as np

from sim.core.operands import combined_pair, compared, integer_source, pair, store_pair
from sim.core.rows import (
    as_i32,
    as_i64,
    as_u32,
    as_u64,
    count_ones,
    i64,
    lanes,
    leading_zeros,
    load,
    mask_of,
    reverse_bits,
    row_function,
    store,
    u32,
    u64,
    where,
)
from sim.isa import (
    ADD_64,
    FLAG_SIGNED,
    FULL_MASK,
    SMOD_NEG_A,
    SMOD_NEG_B,
    SMOD_NEG_C,
    SMOD_NOT_A,
    Op,
    ShiftMode,
)


@row_function
def _addend(U, row, modifiers):
    """A 32-bit addend in 64 bits; a negated one is its complement plus one, so that subtraction carries."""
    x = u64(load(U, row))
    if modifiers & SMOD_NEG_A:
        x = (x ^ 0xFFFFFFFF) + 1
    if modifiers & SMOD_NOT_A:
        x = x ^ 0xFFFFFFFF
    return x


@row_function
def _wide_product(U, a, b, smod, flags):
    """The 64-bit product of two 32-bit rows, as uint64."""
    x, y = load(U, a), load(U, b)
    product = as_u64(i64(as_i32(x)) * i64(as_i32(y))) if flags & FLAG_SIGNED else u64(x) * u64(y)
    if (smod & SMOD_NEG_A != 0) != (smod & SMOD_NEG_B != 0):
        product = -product
    return product


@row_function
def integer_arithmetic(U, op, d, a, b, c, nc, smod, x, flags, pa, pb, mask):
    """IADD3, IMAD and its kin, LEA, LEA.HI. `pa` and `pb` are carries in; PD and PE carries out."""
    pd = pe = 0
    if op == Op.IADD3 and x == ADD_64:
        store_pair(U, d, pair(U, a) + pair(U, b) + pair(U, c), mask)
    elif op == Op.IADD3:
        total = _addend(U, a, smod) + _addend(U, b, smod >> 1) + _addend(U, c, smod >> 2)
        total = total + u64(lanes(pa)) + u64(lanes(pb))
        store(U, d, u32(total), mask)
        pd, pe = mask_of((total >> 32) != 0), mask_of((total >> 32) > 1)
    elif op == Op.IMAD or op == Op.IMUL:
        product = integer_source(U, a, smod) * integer_source(U, b, smod >> 1)
        store(U, d, product + integer_source(U, c, smod >> 2) + u32(lanes(pa)), mask)
    elif op == Op.IMAD_WIDE:
        product = _wide_product(U, a, b, smod, flags)
        addend = pair(U, c) if nc > 1 else u64(load(U, c))
        if smod & SMOD_NEG_C:
            addend = -addend
        total = product + addend
        carry = total < product
        total = total + u64(lanes(pa))
        store_pair(U, d, total, mask)
        pd = mask_of(carry | (lanes(pa) & (total == 0)))
    elif op == Op.IMAD_HI:
        product = _wide_product(U, a, b, smod, flags)
        if nc > 1:
            store(U, d, u32((product + pair(U, c)) >> 32), mask)
        else:
            store(U, d, u32(product >> 32) + integer_source(U, c, smod >> 2), mask)
    elif op == Op.LEA:
        shifted = integer_source(U, a, smod) << u32(x & 31)
        total = u64(shifted) + _addend(U, b, smod >> 1)
        store(U, d, u32(total), mask)
        pd = mask_of((total >> 32) != 0)
    elif op == Op.LEA_HI:
        low, high = load(U, a), load(U, c)
        if flags & FLAG_SIGNED:
            high = as_u32(as_i32(low) >> 31)
        whole = u64(low) | (u64(high) << 32)
        if smod & SMOD_NEG_A:
            whole = -whole
        total = ((whole << u64(x & 31)) >> 32) + _addend(U, b, smod >> 1) + u64(lanes(pa))
        store(U, d, u32(total), mask)
        pd = mask_of((total >> 32) != 0)
    return pd, pe


@row_function
def integer_selection(U, op, d, nd, a, b, c, smod, x, pa, mask):
    """MOV, SEL, IMNMX, IABS, IDP."""
    if op == Op.MOV:
        for word in range(nd):
            store(U, d + word, load(U, a + word), mask)
    elif op == Op.SEL:
        store(U, d, where(lanes(pa), integer_source(U, a, smod), integer_source(U, b, smod >> 1)), mask)
    elif op == Op.IMNMX:
        left, right = integer_source(U, a, smod), integer_source(U, b, smod >> 1)
        if x & 2:
            left = left + integer_source(U, c, smod >> 2)
        less = left < right if x & 1 else as_i32(left) < as_i32(right)
        store(U, d, where(less ^ lanes(pa), right, left), mask)
    elif op == Op.IABS:
        value = integer_source(U, a, smod)
        store(U, d, where(as_i32(value) < 0, -value, value), mask)
    elif op == Op.IDP:
        if x & 4:
            left, right = load(U, a), load(U, b)
            swapped = left < right if x & 1 else as_i32(left) < as_i32(right)
            value = where(swapped, right - left, left - right)
        elif x & 8:
            value = _byte_differences(load(U, a), load(U, b), x)
        else:
            value = _dot_bytes(load(U, a), load(U, b), x)
        store(U, d, value + integer_source(U, c, smod >> 2), mask)


@row_function
def _byte_differences(left, right, x):
    """|a - b| of four unsigned bytes: their sum, or with X bit 4 each in its place."""
    total = left & 0
    for byte in range(4):
        p, q = (left >> (8 * byte)) & 0xFF, (right >> (8 * byte)) & 0xFF
        difference = where(p < q, q - p, p - q)
        total = total + (difference << (8 * byte) if x & 16 else difference)
    return total


@row_function
def _dot_bytes(left, right, x):
    """Sum of four byte products; X bit 0: `left` unsigned, bit 1: `right` unsigned."""
    total = left & 0
    for byte in range(4):
        p, q = (left >> (8 * byte)) & 0xFF, (right >> (8 * byte)) & 0xFF
        if not x & 1:
            p = (p ^ 0x80) - 0x80
        if not x & 2:
            q = (q ^ 0x80) - 0x80
        total = total + p * q
    return total


@row_function
def integer_comparison(U, a, b, smod, x, pa, pb):
    """ISETP: X = comparison | boolean << 4 | unsigned << 8 | extended << 9; `pb` is the low words' result with .EX."""
    left, right = integer_source(U, a, smod), integer_source(U, b, smod >> 1)
    equal = mask_of(left == right)
    less = mask_of(left < right) if x & 256 else mask_of(as_i32(left) < as_i32(right))
    greater = FULL_MASK ^ less ^ equal
    if x & 512:
        hit = compared(x & 5, less, equal, greater, 0) | (equal & pb)
    else:
        hit = compared(x & 7, less, equal, greater, 0)
    return combined_pair((x >> 4) & 3, hit, pa)


@row_function
def logic3(U, d, a, b, c, smod, table, pa, mask):
    """LOP3: bit i of the result is bit (a_i, b_i, c_i) of the table. PD: any bit set, or PA (table | 256: and PA)."""
    p, q, r = integer_source(U, a, smod), integer_source(U, b, smod >> 1), integer_source(U, c, smod >> 2)
    low, high = _by_two_bits(q, r, table), _by_two_bits(q, r, table >> 4)
    result = low ^ (p & (low ^ high))
    store(U, d, result, mask)
    any_bit = mask_of(result != 0)
    return any_bit & pa if table & 256 else any_bit | pa


@row_function
def _by_two_bits(q, r, table):
    """The four-entry table at each bit of (q, r)."""
    low, high = _by_one_bit(r, table), _by_one_bit(r, table >> 2)
    return low ^ (q & (low ^ high))


@row_function
def _by_one_bit(r, table):
    zero, one = u32(-(table & 1)), u32(-((table >> 1) & 1))
    return zero ^ (r & (zero ^ one))


@row_function
def funnel_shift(U, d, a, b, c, x, mask):
    """SHF: the 64-bit c:a shifted by b, one word of it; X = ShiftMode bits."""
    whole = u64(load(U, a)) | (u64(load(U, c)) << 32)
    amount = load(U, b)
    limit = 64 if x & ShiftMode.WIDE else 32
    if x & ShiftMode.WRAP:
        amount = amount & (limit - 1)
    else:
        amount = where(amount > limit, limit, amount)
    half = amount >> 1
    first, second = u64(half), u64(amount - half)  # two steps, since a shift by 64 is not defined
    if not x & ShiftMode.RIGHT:
        result = (whole << first) << second
    elif x & ShiftMode.SIGNED:
        result = as_u64((as_i64(whole) >> as_i64(first)) >> as_i64(second))
    else:
        result = (whole >> first) >> second
    store(U, d, u32(result >> 32) if x & ShiftMode.HI else u32(result), mask)


#: selectors of PRMT's modes F4E, B4E, RC8, ECL, ECR, RC16 for the low two bits of b
_PERMUTE_SELECTORS = np.array(
    [
        [0x3210, 0x4321, 0x5432, 0x6543],
        [0x5670, 0x6701, 0x7012, 0x0123],
        [0x0000, 0x1111, 0x2222, 0x3333],
        [0x3210, 0x3211, 0x3222, 0x3333],
        [0x0000, 0x1110, 0x2210, 0x3210],
        [0x1010, 0x3232, 0x1010, 0x3232],
    ],
    np.int64,
)


@row_function
def permute_bytes(U, d, a, b, c, x, mask):
    """PRMT: four bytes of c:a, chosen by b's nibbles (bit 3: its sign); X: 0, or a mode 1..6 as PTX lists them."""
    whole = u64(load(U, a)) | (u64(load(U, c)) << 32)
    selector = load(U, b)
    if x:
        case = selector & 3
        selector = u32(_PERMUTE_SELECTORS[x - 1, 0])
        for value in range(1, 4):
            selector = where(case == value, u32(_PERMUTE_SELECTORS[x - 1, value]), selector)
    result = selector & 0
    for byte in range(4):
        nibble = selector >> (4 * byte)
        chosen = u32(whole >> u64((nibble & 7) << 3)) & 0xFF
        chosen = where((nibble & 8) != 0, (chosen >> 7) * 0xFF, chosen)
        result = result | (chosen << (8 * byte))
    store(U, d, result, mask)


@row_function
def integer_bits(U, op, d, a, b, smod, x, mask):
    """POPC, FLO, BREV, SGXT, BMSK."""
    value = integer_source(U, a, smod)
    if op == Op.POPC:
        value = count_ones(value)
    elif op == Op.BREV:
        value = reverse_bits(value)
    elif op == Op.FLO:
        if x & 1:
            value = where(as_i32(value) < 0, ~value, value)
        zeros = leading_zeros(value)
        value = where(value == 0, 0xFFFFFFFF, zeros if x & 2 else 31 - zeros)
    else:
        width = load(U, b)
        width = where(width > 32, 32, width)
        bits = u32((u64(width & 0) + 1 << u64(width)) - 1)
        if op == Op.BMSK:
            start = where(value > 32, 32, value)
            value = u32(u64(bits) << u64(start))
        else:
            value = value & bits
            if not x & 1:
                sign = bits ^ (bits >> 1)
                value = (value ^ sign) - sign
    store(U, d, value, mask)
