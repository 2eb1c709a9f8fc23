"""Atomics: what a read-modify-write leaves in memory and returns.

An atomic's operands travel as `data`, int64[4, 32]: addresses, operands, compare
values and (filled by `apply_atomic`) the old values, each as bits.
"""

from __future__ import annotations

import numpy as np

from sim._jit import bits_to_f32, bits_to_f64, f32_to_bits, f64_to_bits, jit
from sim.core.halves import half_bits, half_value
from sim.core.operands import row_of
from sim.isa import WARP_SIZE, AtomicOp, Col, NumberType

ADDRESS, OPERAND, COMPARE, OLD = range(4)  #: rows of `data`


@jit
def gather_operand(code, pc, U, base, data):
    """Fill `data[OPERAND]` and `data[COMPARE]` from the rows at b and c of an ATOM or RED."""
    wide = code[pc, Col.WIDTH] == 8
    b, c = row_of(code[pc, Col.B], base), row_of(code[pc, Col.C], base)
    for lane in range(WARP_SIZE):
        data[OPERAND, lane] = np.int64(U[b, lane])
        data[COMPARE, lane] = np.int64(U[c, lane])
        if wide:
            data[OPERAND, lane] |= np.int64(U[b + 1, lane]) << 32
            data[COMPARE, lane] |= np.int64(U[c + 1, lane]) << 32


@jit
def scatter_result(code, pc, U, base, mask, data):
    """Write the old values to an ATOM's destination."""
    d = row_of(code[pc, Col.D], base)
    for lane in range(WARP_SIZE):
        if (mask >> lane) & 1:
            U[d, lane] = np.uint32(data[OLD, lane] & 0xFFFFFFFF)
            if code[pc, Col.WIDTH] == 8:
                U[d + 1, lane] = np.uint32((data[OLD, lane] >> 32) & 0xFFFFFFFF)


@jit
def apply_atomic(x, width, mask, data, origin, memory):
    """Perform an atomic on `memory`, lane after lane, and fill `data[OLD]`.

    `x` is the instruction's X (AtomicOp | NumberType << 4), `width` its bytes a lane: 2
    (one half), 4 (a word, or two packed halves) or 8. A narrow signed old value is
    zero-extended.
    """
    operation, kind = x & 15, (x >> 4) & 15
    for lane in range(WARP_SIZE):
        if not (mask >> lane) & 1:
            continue
        at = data[ADDRESS, lane] - origin
        old = np.int64(0)
        for byte in range(width):
            old |= np.int64(memory[at + byte]) << (8 * byte)
        data[OLD, lane] = old
        if operation == AtomicOp.CAST:
            new = modified(AtomicOp.CAS, kind, width, old, data[OPERAND, lane], data[COMPARE, lane])
            data[OLD, lane] = np.int64(old == data[COMPARE, lane])
        else:
            new = modified(operation, kind, width, old, data[OPERAND, lane], data[COMPARE, lane])
        for byte in range(width):
            memory[at + byte] = np.uint8((new >> (8 * byte)) & 255)


@jit
def modified(operation, kind, width, old, operand, compare):
    """The bits that replace `old`."""
    if operation == AtomicOp.EXCH:
        return operand
    if operation == AtomicOp.CAS:
        keep = (np.int64(1) << (8 * width)) - 1 if width < 8 else np.int64(-1)
        return operand if old == compare & keep else old
    if operation == AtomicOp.AND:
        return old & operand
    if operation == AtomicOp.OR:
        return old | operand
    if operation == AtomicOp.XOR:
        return old ^ operand
    if kind == NumberType.F32:
        return np.int64(_single(operation, np.uint32(old), np.uint32(operand)))
    if kind == NumberType.F64:
        return np.int64(_double(operation, np.uint64(old), np.uint64(operand)))
    if kind == NumberType.F16 or kind == NumberType.BF16:
        low = _half(operation, kind, old & 0xFFFF, operand & 0xFFFF)
        if width == 2:
            return low
        return low | (_half(operation, kind, (old >> 16) & 0xFFFF, (operand >> 16) & 0xFFFF) << 16)
    signed = kind == NumberType.S32 or kind == NumberType.S64 or kind == NumberType.S16 or kind == NumberType.S8
    return _integer(operation, signed, width, old, operand)


@jit
def _integer(operation, signed, width, old, operand):
    """ADD, MIN, MAX, INC and DEC of `width` bytes."""
    if operation == AtomicOp.ADD:
        return np.int64(np.uint64(old) + np.uint64(operand))
    # Both as ordered int64: unsigned values are moved down by half their range, or up to the top bits.
    left, right = old << (64 - 8 * width), operand << (64 - 8 * width)
    if not signed or operation > AtomicOp.MAX:  # INC and DEC are unsigned
        left, right = left ^ np.int64(-(2**63)), right ^ np.int64(-(2**63))
    if operation == AtomicOp.MIN:
        return operand if right < left else old
    if operation == AtomicOp.MAX:
        return operand if right > left else old
    if operation == AtomicOp.INC:
        return np.int64(0) if left >= right else old + 1
    return operand if old == 0 or left > right else old - 1


@jit
def _extreme(operation, old, operand):
    """Whether MIN or MAX keeps `old`; a number wins against a NaN."""
    if old != old or operand != operand:
        return operand != operand
    return old <= operand if operation == AtomicOp.MIN else old >= operand


@jit
def _single(operation, old, operand):
    if operation == AtomicOp.ADD:
        total = bits_to_f32(old) + bits_to_f32(operand)
        return f32_to_bits(np.float32(total)) if total == total else np.uint32(0x7FFFFFFF)
    return old if _extreme(operation, bits_to_f32(old), bits_to_f32(operand)) else operand


@jit
def _double(operation, old, operand):
    if operation == AtomicOp.ADD:
        return f64_to_bits(bits_to_f64(old) + bits_to_f64(operand))
    return old if _extreme(operation, bits_to_f64(old), bits_to_f64(operand)) else operand


@jit
def _half(operation, kind, old, operand):
    """One 16-bit float, as int64 bits; two halves add exactly in double precision before they are rounded."""
    bf16 = kind == NumberType.BF16
    left, right = half_value(old, bf16), half_value(operand, bf16)
    if operation == AtomicOp.ADD:
        return half_bits(left + right, bf16)
    return old if _extreme(operation, left, right) else operand
