"""Memory instructions: addresses, and moving data between registers and bytes.

A memory is a flat byte array whose first byte has address `origin`. Callers check
bounds and alignment first; atomics are in `sim.core.exec_atomic`.
"""

from __future__ import annotations

from sim._jit import jit
from sim.core.access import is_contiguous, lowest_lane
from sim.core.exec_atomic import apply_atomic, gather_operand, scatter_result
from sim.core.operands import row_of
from sim.core.rows import (
    as_i32,
    as_i64,
    clear,
    gather8,
    gather16,
    gather32,
    i64,
    lane_numbers,
    load_octet,
    load_run,
    mask_of,
    move,
    permute,
    row_function,
    save,
    save_run,
    scatter8,
    scatter16,
    scatter32,
    spread,
    u32,
    u64,
    word_at,
)
from sim.core.rows import load as load_row
from sim.core.rows import store as store_row
from sim.isa import FLAG_SIGNED, FULL_MASK, SCALE_SHIFT, WARP_SIZE, AtomicOp, Col, Op

__all__ = [
    "apply_atomic",
    "copy_async",
    "effective_addresses",
    "first_misaligned",
    "gather_operand",
    "load",
    "load_matrix",
    "scatter_result",
    "store",
    "store_matrix",
]


@jit
def _address_part(U, row, words):
    """A 32-bit or 64-bit operand of an address, as int64."""
    low = u64(load_row(U, row))
    if words == 2:
        low = low | (u64(load_row(U, row + 1)) << 32)
    return as_i64(low)


@jit
def effective_addresses(code, pc, U, base, addr, source):
    """Fill `addr` (int64[32]) with the byte addresses of all lanes: operand a, plus Y.

    Operand a may be scaled (SCALE_SHIFT). A load may name a further, uniform, part of the
    address at b, a store or atomic at c. A 32-bit address wraps around at 2**32. For LDGSTS
    `addr` is the place in shared memory, and `source` (int64[32]) is filled with the one in
    global memory: b, plus X.
    """
    op, words = code[pc, Col.OP], code[pc, Col.NA]
    scale = (code[pc, Col.FLAGS] >> SCALE_SHIFT) & 7
    total = (_address_part(U, row_of(code[pc, Col.A], base), words) << i64(scale)) + i64(code[pc, Col.Y])
    if op == Op.LDGSTS:
        part = _address_part(U, row_of(code[pc, Col.B], base), code[pc, Col.NB])
        save(source, 0, part + i64(code[pc, Col.X]))
    further, count = code[pc, Col.B], code[pc, Col.NB]
    if op != Op.LD and op != Op.LDSM:
        further, count = code[pc, Col.C], code[pc, Col.NC]
    compares = (op == Op.ATOM or op == Op.RED) and (code[pc, Col.X] & 15) >= AtomicOp.CAS
    if count > 0 and op != Op.LDGSTS and not compares:
        words = max(words, count)
        total = total + _address_part(U, row_of(further, base), count)
    if words != 2:
        total = total & 0xFFFFFFFF
    save(addr, 0, total)


@jit
def first_misaligned(addr, mask, width):
    """The first lane of `mask` whose address is no multiple of `width` bytes; -1 when there is none."""
    crooked = mask & mask_of((load_row(addr, 0) & i64(width - 1)) != 0)
    if crooked:
        for lane in range(WARP_SIZE):
            if (crooked >> lane) & 1:
                return lane
    return -1


@row_function
def _load_run(U, d, width, memory, at):
    """All lanes load, from `width` bytes each, one after another from offset `at` on."""
    if width == 4:
        save(U, d, load_run(memory, at, 1)[0])
    elif width == 8:
        rows = load_run(memory, at, 2)
        save(U, d, rows[0])
        save(U, d + 1, rows[1])
    else:
        rows = load_run(memory, at, 4)
        save(U, d, rows[0])
        save(U, d + 1, rows[1])
        save(U, d + 2, rows[2])
        save(U, d + 3, rows[3])


@row_function
def _store_run(U, b, width, memory, at):
    """The inverse of `_load_run`."""
    if width == 4:
        save_run(memory, at, (load_row(U, b),))
    elif width == 8:
        save_run(memory, at, (load_row(U, b), load_row(U, b + 1)))
    else:
        save_run(memory, at, (load_row(U, b), load_row(U, b + 1), load_row(U, b + 2), load_row(U, b + 3)))


@jit
def load(code, pc, U, base, mask, addr, origin, memory):
    """LD: `Col.WIDTH` bytes a lane into one, two or four rows; narrow loads extend by FLAG_SIGNED."""
    d, width = row_of(code[pc, Col.D], base), code[pc, Col.WIDTH]
    x = load_row(addr, 0)
    offset = x - i64(origin)
    if width >= 4:
        first = addr[lowest_lane(mask)]
        if mask_of(x != i64(first)) & mask == 0:
            for word in range(width >> 2):
                store_row(U, d + word, u32(word_at(memory, first - origin + 4 * word)), mask)
        elif is_contiguous(addr, mask, width):
            _load_run(U, d, width, memory, first - origin)
        else:
            for word in range(width >> 2):
                store_row(U, d + word, gather32(memory, offset + i64(4 * word), mask), mask)
        return
    value = gather16(memory, offset, mask) if width == 2 else gather8(memory, offset, mask)
    if code[pc, Col.FLAGS] & FLAG_SIGNED:
        unused = u32(32 - 8 * width)
        store_row(U, d, as_i32(value << unused) >> as_i32(unused), mask)
    else:
        store_row(U, d, value, mask)


@jit
def store(code, pc, U, base, mask, addr, origin, memory):
    """ST: `Col.WIDTH` bytes a lane from rows at b; where lanes meet, the highest lane's value stays."""
    b, width = row_of(code[pc, Col.B], base), code[pc, Col.WIDTH]
    if width >= 4 and is_contiguous(addr, mask, width):
        _store_run(U, b, width, memory, addr[0] - origin)
        return
    offset = load_row(addr, 0) - i64(origin)
    if width >= 4:
        for word in range(width >> 2):
            scatter32(memory, offset + i64(4 * word), load_row(U, b + word), mask)
    elif width == 2:
        scatter16(memory, offset, load_row(U, b), mask)
    else:
        scatter8(memory, offset, load_row(U, b), mask)


@jit
def move_bytes(target, to, source, at, size):
    """Copy `size` bytes, mostly 16."""
    if size == 16:
        move(target, to, source, at, 16)
    else:
        for k in range(size):
            target[to + k] = source[at + k]


@jit
def clear_bytes(target, to, size):
    """Zero `size` bytes, mostly 16."""
    if size == 16:
        clear(target, to, 16)
    else:
        for k in range(size):
            target[to + k] = 0


@jit
def copy_async(mask, reading, width, addr, source, origin, memory, shared):
    """LDGSTS: `width` bytes a lane from `memory` at `source` to `shared` at `addr`.

    Lanes of `mask` outside `reading` write zeros.
    """
    for lane in range(WARP_SIZE):
        if (mask >> lane) & 1:
            to, at = addr[lane], source[lane] - origin
            if not (reading >> lane) & 1:
                for word in range(width >> 2):
                    clear(shared, to + 4 * word, 4)
            elif width == 16:
                move(shared, to, memory, at, 16)
            elif width == 8:
                move(shared, to, memory, at, 8)
            else:
                move(shared, to, memory, at, 4)


@row_function
def _load_one(U, d, octet, transposed):
    """One matrix, as `load_octet` has it, into one register row."""
    if transposed:
        # lane 4 r + t takes elements (2 t, r) and (2 t + 1, r): halves of word r >> 1 of rows 2 t and 2 t + 1
        lane = u32(lane_numbers())
        word = ((lane & 3) << 3) + (lane >> 3)
        half = ((lane >> 2) & 1) << 4
        low, high = permute(octet, word) >> half, permute(octet, word + 4) >> half
        save(U, d, (low & 0xFFFF) | (high << 16))
    else:
        save(U, d, octet)


@jit
def load_matrix(code, pc, U, base, addr, memory):
    """LDSM: `Col.WIDTH` 8x8 matrices of 16-bit elements, row r of matrix m at the address in lane 8 m + r.

    Lane 4 r + t receives elements (r, 2 t) and (r, 2 t + 1); transposed (X = 1), elements (2 t, r) and (2 t + 1, r).
    """
    d, count, transposed = row_of(code[pc, Col.D], base), code[pc, Col.WIDTH], code[pc, Col.X] & 1
    rows = load_row(addr, 0)
    _load_one(U, d, load_octet(memory, rows, 0), transposed)
    if count > 1:
        _load_one(U, d + 1, load_octet(memory, rows, 8), transposed)
    if count > 2:
        _load_one(U, d + 2, load_octet(memory, rows, 16), transposed)
        _load_one(U, d + 3, load_octet(memory, rows, 24), transposed)


@row_function
def _store_one(U, b, memory, transposed, straight, even, odd):
    """The inverse of `_load_one`."""
    lane, value = i64(lane_numbers()), load_row(U, b)
    if transposed:
        column = (lane >> 2) << 1
        scatter16(memory, even + column, value & 0xFFFF, FULL_MASK)
        scatter16(memory, odd + column, value >> 16, FULL_MASK)
    else:
        scatter32(memory, straight + ((lane & 3) << 2), value, FULL_MASK)


@jit
def store_matrix(code, pc, U, base, addr, memory):
    """STSM: the inverse of LDSM, from rows at b."""
    b, count, transposed = row_of(code[pc, Col.B], base), code[pc, Col.WIDTH], code[pc, Col.X] & 1
    rows = load_row(addr, 0)
    _store_one(U, b, memory, transposed, spread(rows, 1, 0, 0), spread(rows, 0, 2, 0), spread(rows, 0, 2, 1))
    if count > 1:
        _store_one(U, b + 1, memory, transposed, spread(rows, 1, 0, 8), spread(rows, 0, 2, 8), spread(rows, 0, 2, 9))
    if count > 2:
        _store_one(U, b + 2, memory, transposed, spread(rows, 1, 0, 16), spread(rows, 0, 2, 16), spread(rows, 0, 2, 17))
        _store_one(U, b + 3, memory, transposed, spread(rows, 1, 0, 24), spread(rows, 0, 2, 24), spread(rows, 0, 2, 25))
