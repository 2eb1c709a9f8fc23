"""Warpgroup products: a warp's 16 rows of wgmma m64nNk16 (k8 of TF32, k32 of 8-bit types), from shared memory.

What lies in shared memory is read in *octets*: eight 16-byte units, one under the
other, as a row of 32 words. With k along the unit (K-major) lane 4 r + t holds k
numbers 2 t and 2 t + 1 (of 16-bit types) of row r, which is how mma's fragments lie in
registers, too; so A from registers and A from memory go on alike. With m or n along the
unit (MN-major) lane 4 k + t holds rows 2 t and 2 t + 1 of one k.

The terms of A are spread over the lanes once, into work rows 2 i and 2 i + 1 (rows g and
g + 8 of the i-th k), since each block of eight columns needs them anew. The order of the
k is that of the octets: unit, element of a word, word.
"""

from __future__ import annotations

from sim.core.halves import half_row, packed, round_to_half
from sim.core.rounding import canonical
from sim.core.rows import (
    as_f32,
    as_i32,
    as_u32,
    f32,
    fma,
    i64,
    lane_numbers,
    load,
    load_octet,
    permute,
    row_function,
    save,
    spread,
    u32,
    where,
)
from sim.isa import (
    WGMMA_A_MN_MAJOR,
    WGMMA_A_REGISTERS,
    WGMMA_A_TYPE,
    WGMMA_B_MN_MAJOR,
    WGMMA_B_TYPE,
    WGMMA_HALF_SUM,
    WGMMA_NEGATE_A,
    WGMMA_NEGATE_B,
    NumberType,
)

ROW_BYTES = 16  #: of a unit, and of a row without swizzle


@row_function
def _e4m3(byte):
    """float32 row of the e4m3 numbers in the low byte of a uint32 row."""
    size = byte & 0x7F
    # The bits of a float16 that is 2**-8 times the number; 0x7F is the only NaN.
    value = half_row(size << 7, False) * f32(256.0)
    bits = where(size == 0x7F, 0x7FFFFFFF, as_u32(value))
    return as_f32(bits | ((byte & 0x80) << 24))


@row_function
def _element(words, index, kind):
    """float32 row of the `index`-th element of each word."""
    if kind == NumberType.TF32:
        return as_f32(words & 0xFFFFE000)
    if kind == NumberType.E4M3:
        return _e4m3((words >> (8 * index)) & 0xFF)
    if kind == NumberType.E5M2:
        return half_row(((words >> (8 * index)) & 0xFF) << 8, False)
    return half_row((words >> (16 * index)) & 0xFFFF, kind == NumberType.BF16)


@row_function
def _integer(words, index, kind):
    """int32 row of the `index`-th byte of each word."""
    value = (words >> (8 * index)) & 0xFF
    return as_i32((value ^ 0x80) - 0x80) if kind == NumberType.S8 else as_i32(value)


@row_function
def elements_of(kind):
    """Elements of a type in a 32-bit word."""
    if kind == NumberType.TF32:
        return 1
    return 2 if kind == NumberType.F16 or kind == NumberType.BF16 else 4


@row_function
def swizzled(offsets, layout):
    """Where a descriptor's layout (1: 128, 2: 64, 3: 32 bytes; 0: as it is) puts the bytes of an offset."""
    if layout == 1:
        return offsets ^ ((offsets >> 3) & 0x70)
    if layout == 2:
        return offsets ^ ((offsets >> 3) & 0x30)
    if layout == 3:
        return offsets ^ ((offsets >> 3) & 0x10)
    return offsets


@row_function
def _pitch(layout):
    """Bytes from one row of eight to the next."""
    return ROW_BYTES if layout == 0 else 256 >> layout


@row_function
def octet_offsets(first, descriptor, mn_major):
    """Offsets of 16 units: lanes 0 to 7 the first octet, lanes 8 to 15 the second, of the operand at `first`.

    `descriptor` has the layout in its two highest bits, then the leading and the stride byte offsets in units of 16
    (bits 16 to 29 and 32 to 45).
    """
    layout = (descriptor >> 62) & 3
    leading, stride = ((descriptor >> 16) & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    lane = i64(lane_numbers())
    if mn_major:
        second = stride if layout else leading
    else:
        second = ROW_BYTES if layout else leading
    return i64(first) + (lane & 7) * i64(_pitch(layout)) + ((lane >> 3) & 1) * i64(second)


@row_function
def block_offset(block, descriptor, mn_major):
    """Bytes from an operand's start to its block of eight rows (m or n) number `block`."""
    layout = (descriptor >> 62) & 3
    leading, stride = ((descriptor >> 16) & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    if not mn_major:
        return block * stride
    if layout == 0:
        return block * stride
    units = _pitch(layout) // ROW_BYTES
    return block % units * ROW_BYTES + block // units * leading


@row_function
def _spread_quad(terms, at, top, bottom):
    """Four k of one element: the words of rows g and g + 8, spread over their lanes, to work rows from 2 * at."""
    save(terms, 2 * at, spread(top, 4, 0, 0))
    save(terms, 2 * at + 1, spread(bottom, 4, 0, 0))
    save(terms, 2 * at + 2, spread(top, 4, 0, 1))
    save(terms, 2 * at + 3, spread(bottom, 4, 0, 1))
    save(terms, 2 * at + 4, spread(top, 4, 0, 2))
    save(terms, 2 * at + 5, spread(bottom, 4, 0, 2))
    save(terms, 2 * at + 6, spread(top, 4, 0, 3))
    save(terms, 2 * at + 7, spread(bottom, 4, 0, 3))


@row_function
def _spread_words(terms, first, top, bottom, kind, negate):
    """All elements of one unit's words, top and bottom rows, from the `first`-th k on."""
    count = elements_of(kind)
    for index in range(count):
        at = first + 4 * index
        if kind == NumberType.S8 or kind == NumberType.U8:
            _spread_quad(terms, at, as_u32(_integer(top, index, kind)), as_u32(_integer(bottom, index, kind)))
        else:
            upper, lower = as_u32(_element(top, index, kind)), as_u32(_element(bottom, index, kind))
            if negate:
                upper, lower = upper ^ 0x80000000, lower ^ 0x80000000
            _spread_quad(terms, at, upper, lower)


@row_function
def _turned(octet, k):
    """Of an MN-major octet: the 16-bit element of row g and the `k`-th k, in lane 4 g + t, in the low half."""
    lane = u32(lane_numbers())
    words = permute(octet, (lane >> 3) + u32(4 * k))
    return where(((lane >> 2) & 1) != 0, words >> 16, words & 0xFFFF)


@row_function
def _spread_turned(terms, first, top, bottom, kind, negate):
    """As `_spread_words`, of MN-major octets of 16-bit types."""
    for k in range(8):
        at = first + (k & 1) * 4 + (k >> 1)
        upper = as_u32(half_row(_turned(top, k), kind == NumberType.BF16))
        lower = as_u32(half_row(_turned(bottom, k), kind == NumberType.BF16))
        if negate:
            upper, lower = upper ^ 0x80000000, lower ^ 0x80000000
        save(terms, 2 * at, upper)
        save(terms, 2 * at + 1, lower)


@row_function
def spread_a(terms, U, a, warp, at, descriptor, home, memory, x):
    """The terms of a warp's 16 rows of A: from registers a to a + 3, or shared memory at `at`."""
    kind, negate = (x >> WGMMA_A_TYPE) & 15, x & WGMMA_NEGATE_A
    half = 4 * elements_of(kind)
    if x & WGMMA_A_REGISTERS:
        _spread_words(terms, 0, load(U, a), load(U, a + 1), kind, negate)
        _spread_words(terms, half, load(U, a + 2), load(U, a + 3), kind, negate)
        return
    turned = x & WGMMA_A_MN_MAJOR
    layout = (descriptor >> 62) & 3
    places = octet_offsets(at, descriptor, turned)
    upper = swizzled(places + i64(block_offset(2 * warp, descriptor, turned)), layout) + i64(home)
    lower = swizzled(places + i64(block_offset(2 * warp + 1, descriptor, turned)), layout) + i64(home)
    if turned:
        _spread_turned(terms, 0, load_octet(memory, upper, 0), load_octet(memory, lower, 0), kind, negate)
        _spread_turned(terms, half, load_octet(memory, upper, 8), load_octet(memory, lower, 8), kind, negate)
    else:
        _spread_words(terms, 0, load_octet(memory, upper, 0), load_octet(memory, lower, 0), kind, negate)
        _spread_words(terms, half, load_octet(memory, upper, 8), load_octet(memory, lower, 8), kind, negate)


@row_function
def _add(sums, terms, at, even, odd):
    """The `at`-th k: columns 2 t and 2 t + 1 of B, in all lanes of a thread number, times A's terms."""
    top, bottom = as_f32(load(terms, 2 * at)), as_f32(load(terms, 2 * at + 1))
    return fma(top, even, sums[0]), fma(top, odd, sums[1]), fma(bottom, even, sums[2]), fma(bottom, odd, sums[3])


@row_function
def _add_quad(sums, terms, at, b):
    """Four k of one element of a K-major octet of B."""
    sums = _add(sums, terms, at, spread(b, 0, 8, 0), spread(b, 0, 8, 4))
    sums = _add(sums, terms, at + 1, spread(b, 0, 8, 1), spread(b, 0, 8, 5))
    sums = _add(sums, terms, at + 2, spread(b, 0, 8, 2), spread(b, 0, 8, 6))
    return _add(sums, terms, at + 3, spread(b, 0, 8, 3), spread(b, 0, 8, 7))


@row_function
def _add_words(sums, terms, first, octet, kind):
    """All k of a K-major octet of B."""
    for index in range(elements_of(kind)):
        sums = _add_quad(sums, terms, first + 4 * index, _element(octet, index, kind))
    return sums


@row_function
def _add_turned(sums, terms, first, octet, kind):
    """All eight k of an MN-major octet of B."""
    even, odd = half_row(octet & 0xFFFF, kind == NumberType.BF16), half_row(octet >> 16, kind == NumberType.BF16)
    sums = _add(sums, terms, first, spread(even, 0, 1, 0), spread(odd, 0, 1, 0))
    sums = _add(sums, terms, first + 4, spread(even, 0, 1, 4), spread(odd, 0, 1, 4))
    sums = _add(sums, terms, first + 1, spread(even, 0, 1, 8), spread(odd, 0, 1, 8))
    sums = _add(sums, terms, first + 5, spread(even, 0, 1, 12), spread(odd, 0, 1, 12))
    sums = _add(sums, terms, first + 2, spread(even, 0, 1, 16), spread(odd, 0, 1, 16))
    sums = _add(sums, terms, first + 6, spread(even, 0, 1, 20), spread(odd, 0, 1, 20))
    sums = _add(sums, terms, first + 3, spread(even, 0, 1, 24), spread(odd, 0, 1, 24))
    return _add(sums, terms, first + 7, spread(even, 0, 1, 28), spread(odd, 0, 1, 28))


@row_function
def _add_integers(sums, terms, at, even, odd):
    top, bottom = as_i32(load(terms, 2 * at)), as_i32(load(terms, 2 * at + 1))
    return sums[0] + top * even, sums[1] + top * odd, sums[2] + bottom * even, sums[3] + bottom * odd


@row_function
def _add_bytes(sums, terms, first, octet, kind):
    """All 16 k of an octet of bytes."""
    for index in range(4):
        b, at = _integer(octet, index, kind), first + 4 * index
        sums = _add_integers(sums, terms, at, spread(b, 0, 8, 0), spread(b, 0, 8, 4))
        sums = _add_integers(sums, terms, at + 1, spread(b, 0, 8, 1), spread(b, 0, 8, 5))
        sums = _add_integers(sums, terms, at + 2, spread(b, 0, 8, 2), spread(b, 0, 8, 6))
        sums = _add_integers(sums, terms, at + 3, spread(b, 0, 8, 3), spread(b, 0, 8, 7))
    return sums


@row_function
def _float_sums(U, d, half, add, negate):
    """The accumulators of a block of eight columns; zeros where the product replaces them."""
    zero = f32(0.0) + as_f32(u32(lane_numbers()) & 0)
    if not add:
        return zero, zero, zero, zero
    if half:
        top, bottom = load(U, d), load(U, d + 1)
        sums = (
            half_row(top & 0xFFFF, False), half_row(top >> 16, False),
            half_row(bottom & 0xFFFF, False), half_row(bottom >> 16, False),
        )  # fmt: skip
    else:
        sums = (as_f32(load(U, d)), as_f32(load(U, d + 1)), as_f32(load(U, d + 2)), as_f32(load(U, d + 3)))
    if negate:  # of B: its terms come with the other sign
        return zero - sums[0], zero - sums[1], zero - sums[2], zero - sums[3]
    return sums


@row_function
def _save_floats(U, d, sums, half, negate):
    """The inverse of `_float_sums`."""
    if negate:
        zero = f32(0.0) + as_f32(u32(lane_numbers()) & 0)
        sums = (zero - sums[0], zero - sums[1], zero - sums[2], zero - sums[3])
    if half:
        save(U, d, packed(round_to_half(sums[0], False), round_to_half(sums[1], False)))
        save(U, d + 1, packed(round_to_half(sums[2], False), round_to_half(sums[3], False)))
    else:
        save(U, d, canonical(sums[0]))
        save(U, d + 1, canonical(sums[1]))
        save(U, d + 2, canonical(sums[2]))
        save(U, d + 3, canonical(sums[3]))


@row_function
def float_blocks(U, d, terms, places, descriptor, home, memory, x, add):
    """d += A B for all blocks of eight columns of floating-point types."""
    kind, turned = (x >> WGMMA_B_TYPE) & 15, x & WGMMA_B_MN_MAJOR
    layout, half, negate = (descriptor >> 62) & 3, x & WGMMA_HALF_SUM, x & WGMMA_NEGATE_B
    second = 4 * elements_of(kind)
    rows = 2 if half else 4
    for block in range(x & 63):
        at = swizzled(places + i64(block_offset(block, descriptor, turned)), layout) + i64(home)
        sums = _float_sums(U, d + rows * block, half, add, negate)
        if turned:
            sums = _add_turned(sums, terms, 0, load_octet(memory, at, 0), kind)
            sums = _add_turned(sums, terms, second, load_octet(memory, at, 8), kind)
        else:
            sums = _add_words(sums, terms, 0, load_octet(memory, at, 0), kind)
            sums = _add_words(sums, terms, second, load_octet(memory, at, 8), kind)
        _save_floats(U, d + rows * block, sums, half, negate)


@row_function
def integer_blocks(U, d, terms, places, descriptor, home, memory, x, add):
    """d += A B for all blocks of eight columns of 8-bit integers; sums wrap around."""
    kind, layout = (x >> WGMMA_B_TYPE) & 15, (descriptor >> 62) & 3
    zero = as_i32(u32(lane_numbers()) & 0)
    for block in range(x & 63):
        at = swizzled(places + i64(block_offset(block, descriptor, 0)), layout) + i64(home)
        row = d + 4 * block
        sums = (zero, zero, zero, zero)
        if add:
            sums = (as_i32(load(U, row)), as_i32(load(U, row + 1)), as_i32(load(U, row + 2)), as_i32(load(U, row + 3)))
        sums = _add_bytes(sums, terms, 0, load_octet(memory, at, 0), kind)
        sums = _add_bytes(sums, terms, 16, load_octet(memory, at, 8), kind)
        save(U, row, as_u32(sums[0]))
        save(U, row + 1, as_u32(sums[1]))
        save(U, row + 2, as_u32(sums[2]))
        save(U, row + 3, as_u32(sums[3]))


@row_function
def warpgroup_product(U, d, a, warp, a_at, a_descriptor, b_at, b_descriptor, home, memory, x, add, terms):
    """HGMMA of one warp, `warp` its number in the warpgroup: rows 16 `warp` to 16 `warp` + 15.

    `a_at` and `b_at` are the operands' offsets from the block's shared memory, which begins at `home` of `memory`.
    All lanes take part.
    """
    kind = (x >> WGMMA_B_TYPE) & 15
    spread_a(terms, U, a, warp, a_at, a_descriptor, home, memory, x)
    places = octet_offsets(b_at, b_descriptor, x & WGMMA_B_MN_MAJOR)
    if kind == NumberType.S8 or kind == NumberType.U8:
        integer_blocks(U, d, terms, places, b_descriptor, home, memory, x, add)
    else:
        float_blocks(U, d, terms, places, b_descriptor, home, memory, x, add)
