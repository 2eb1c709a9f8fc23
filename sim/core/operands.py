"""Operands: from decoded codes to rows, predicates and modified sources."""

from __future__ import annotations

from sim.core.rows import as_f32, as_f64, load, magnitude, row_function, store, u32, u64
from sim.isa import FULL_MASK, SMOD_ABS_A, SMOD_NEG_A, SMOD_NOT_A


@row_function
def row_of(operand, base):
    """The register-file row of a decoded operand: a shared row when negative, else counted from the warp's first."""
    return base + operand if operand >= 0 else -operand - 1


@row_function
def predicate_mask(preds, predicate):
    """Lanes for which a source predicate (+ 16: negated) is true."""
    mask = preds[predicate & 15]
    return mask ^ FULL_MASK if predicate & 16 else mask


@row_function
def write_predicate(preds, predicate, value, mask):
    """Set the lanes in `mask` of a destination predicate; PT and UPT discard."""
    if predicate & 7 != 7:
        preds[predicate] = (preds[predicate] & ~mask) | (value & mask)


@row_function
def integer_source(U, row, modifiers):
    """A uint32 row, negated or inverted; `modifiers` is SMOD shifted to source A."""
    x = load(U, row)
    if modifiers & SMOD_NEG_A:
        x = -x
    if modifiers & SMOD_NOT_A:
        x = ~x
    return x


@row_function
def float_source(U, row, modifiers):
    """A float32 row with absolute value, then negation, applied."""
    x = as_f32(load(U, row))
    if modifiers & SMOD_ABS_A:
        x = magnitude(x)
    if modifiers & SMOD_NEG_A:
        x = -x
    return x


@row_function
def pair(U, row):
    """The 64-bit row held by `row` (low words) and `row + 1`."""
    return u64(load(U, row)) | (u64(load(U, row + 1)) << 32)


@row_function
def store_pair(U, row, value, mask):
    """Write a uint64 row to two register rows."""
    store(U, row, u32(value), mask)
    store(U, row + 1, u32(value >> 32), mask)


@row_function
def double_source(U, row, modifiers):
    """A float64 row with absolute value, then negation, applied."""
    x = as_f64(pair(U, row))
    if modifiers & SMOD_ABS_A:
        x = magnitude(x)
    if modifiers & SMOD_NEG_A:
        x = -x
    return x


@row_function
def compared(comparison, less, equal, greater, unordered):
    """Lanes for which a comparison holds: its bits 1, 2, 4, 8 accept less, equal, greater, unordered."""
    result = 0
    if comparison & 1:
        result |= less
    if comparison & 2:
        result |= equal
    if comparison & 4:
        result |= greater
    if comparison & 8:
        result |= unordered
    return result


@row_function
def combined(operation, value, mask):
    """AND, OR or XOR (`sim.isa.BoolOp`) of two lane masks."""
    if operation == 0:
        return value & mask
    if operation == 1:
        return value | mask
    return value ^ mask


@row_function
def combined_pair(operation, hit, mask):
    """PD and PE of a comparison: the result and its opposite, each combined with PA's mask."""
    return combined(operation, hit, mask), combined(operation, hit ^ FULL_MASK, mask)
