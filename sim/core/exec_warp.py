"""Instructions that see the warp as a whole: special registers, predicates, votes, shuffles, reductions."""

from __future__ import annotations

import numpy as np

from sim.core.context import Ctx
from sim.core.operands import pair
from sim.core.rows import (
    as_i32,
    as_u32,
    element,
    lane_numbers,
    lanes,
    load,
    mask_of,
    permute,
    row_function,
    store,
    u32,
    u64,
    where,
)
from sim.isa import FLAG_SIGNED, FULL_MASK, WARP_SIZE, AtomicOp, SpecialRegister


@row_function
def _thread_index(register, ctx):
    """threadIdx.x, .y or .z of each lane, as uint32."""
    linear = u32(lane_numbers()) + u32(ctx[Ctx.WARP] * WARP_SIZE)
    if ctx[Ctx.BLOCK_DIM_Y] * ctx[Ctx.BLOCK_DIM_Z] == 1:
        return linear if register == SpecialRegister.TID_X else linear & 0
    width = u32(ctx[Ctx.BLOCK_DIM_X])
    line = linear // width
    if register == SpecialRegister.TID_X:
        return linear - line * width
    height = u32(ctx[Ctx.BLOCK_DIM_Y])
    plane = line // height
    return line - plane * height if register == SpecialRegister.TID_Y else plane


@row_function
def _lane_mask(register):
    """The %lanemask_* registers: eq, lt, le, gt, ge."""
    lane = u32(lane_numbers())
    one = (lane & 0) + 1
    equal = one << lane
    if register == SpecialRegister.EQMASK:
        return equal
    if register == SpecialRegister.LTMASK:
        return equal - 1
    if register == SpecialRegister.LEMASK:
        return (equal - 1) | equal
    return ~((equal - 1) | equal) if register == SpecialRegister.GTMASK else ~(equal - 1)


@row_function
def _uniform_register(register, ctx):
    """A special register that is the same in all lanes, as int64."""
    if SpecialRegister.CTAID_X <= register <= SpecialRegister.CTAID_Z:
        return ctx[Ctx.BLOCK_X + register - SpecialRegister.CTAID_X]
    if register == SpecialRegister.WARPID:
        return ctx[Ctx.WARP]
    if register == SpecialRegister.VIRTID:
        return ctx[Ctx.WARP] << 8
    if register == SpecialRegister.SMID:
        return ctx[Ctx.SM]
    if register == SpecialRegister.CLOCKLO or register == SpecialRegister.CLOCKHI:
        return ctx[Ctx.CLOCK] >> (32 * (register - SpecialRegister.CLOCKLO))
    if register == SpecialRegister.GLOBALTIMERLO or register == SpecialRegister.GLOBALTIMERHI:
        return ctx[Ctx.NANOSECONDS] >> (32 * (register - SpecialRegister.GLOBALTIMERLO))
    if register == SpecialRegister.NTID_X:
        return ctx[Ctx.BLOCK_DIM_X]
    if SpecialRegister.NTID_Y <= register <= SpecialRegister.NTID_Z:
        return ctx[Ctx.BLOCK_DIM_Y + register - SpecialRegister.NTID_Y]
    if register == SpecialRegister.NCTAID_X:
        return ctx[Ctx.GRID_DIM_X]
    if SpecialRegister.NCTAID_Y <= register <= SpecialRegister.NCTAID_Z:
        return ctx[Ctx.GRID_DIM_Y + register - SpecialRegister.NCTAID_Y]
    return ctx[Ctx.CLUSTER_RANK]  # CGACTAID


@row_function
def special_register(U, d, nd, x, ctx, mask):
    """S2R and CS2R; two destination rows read a 64-bit counter."""
    if x <= SpecialRegister.TID_Z:
        store(U, d, _thread_index(x, ctx), mask)
    elif x == SpecialRegister.LANEID:
        store(U, d, lane_numbers(), mask)
    elif SpecialRegister.EQMASK <= x <= SpecialRegister.GEMASK:
        store(U, d, _lane_mask(x), mask)
    else:
        store(U, d, u32(_uniform_register(x, ctx)), mask)
        if nd == 2:
            store(U, d + 1, u32(_uniform_register(x + 1, ctx)), mask)


@row_function
def predicate_logic(table, pa, pb, pc):
    """PLOP3: the eight-entry table at (pa, pb, pc), lane by lane."""
    result = 0
    for entry in range(8):
        if (table >> entry) & 1:
            p = pa if entry & 4 else pa ^ FULL_MASK
            q = pb if entry & 2 else pb ^ FULL_MASK
            r = pc if entry & 1 else pc ^ FULL_MASK
            result |= p & q & r
    return result


@row_function
def predicates_to_register(U, d, a, b, x, preds, mask):
    """P2R: byte X of a, with bits 0..6 that b selects taken from P0..P6."""
    packed = load(U, a) & 0
    for predicate in range(7):
        packed = packed | (u32(lanes(preds[predicate])) << predicate)
    chosen, shift = load(U, b), u32(8 * (x & 3))
    store(U, d, (load(U, a) & ~(chosen << shift)) | ((packed & chosen) << shift), mask)


@row_function
def register_to_predicates(U, a, b, x, preds, mask):
    """R2P: P0..P6 that b selects, from bits of byte X of a."""
    value, chosen = load(U, a) >> u32(8 * (x & 3)), load(U, b)
    for predicate in range(7):
        bits = mask_of(((value >> predicate) & 1) != 0)
        active = mask & mask_of(((chosen >> predicate) & 1) != 0)
        preds[predicate] = (preds[predicate] & ~active) | (bits & active)


@row_function
def first_lane(mask):
    """The lowest lane of a mask; 0 for an empty one."""
    for lane in range(WARP_SIZE):
        if (mask >> lane) & 1:
            return lane
    return 0


@row_function
def vote(U, d, nd, x, pa, active, mask):
    """VOTE: the ballot of PA among active lanes; PD: all (X = 0), any (1) or equal (2)."""
    ballot = pa & active
    if nd:
        store(U, d, u32(ballot), mask)
    if x == 0:
        hit = ballot == active
    elif x == 1:
        hit = ballot != 0
    else:
        hit = ballot == active or ballot == 0
    return FULL_MASK if hit else 0


@row_function
def shuffle(U, d, a, b, c, x, mask):
    """SHFL as PTX's shfl: X = 0 idx, 1 up, 2 down, 3 bfly; c = clamp | segment mask << 8. PD: source in range."""
    lane = lane_numbers()
    operand, bounds = as_i32(load(U, b)) & 31, as_i32(load(U, c))
    clamp, segment = bounds & 31, (bounds >> 8) & 31
    last = (lane & segment) | (clamp & ~segment)
    if x == 0:
        source = (lane & segment) | (operand & ~segment)
    elif x == 1:
        source = lane - operand
    elif x == 2:
        source = lane + operand
    else:
        source = lane ^ operand
    inside = source >= last if x == 1 else source <= last
    source = where(inside, source, lane)
    store(U, d, permute(load(U, a), as_u32(source & 31)), mask)
    return mask_of(inside)


@row_function
def match(U, d, a, na, x, active, mask):
    """MATCH: lanes that hold this lane's value (X = 0); or all active lanes and PD when all agree, else 0 (X = 1)."""
    value = pair(U, a) if na == 2 else u64(load(U, a))
    low, high = u32(value), u32(value >> 32)
    result = low & 0
    for lane in range(WARP_SIZE):
        if (active >> lane) & 1:
            same = (low == u32(element(low, lane))) & (high == u32(element(high, lane)))
            result = result | (u32(same) << lane)
    if x == 0:
        store(U, d, result, mask)
        return 0
    agree = mask_of(result == u32(active)) & active == active
    store(U, d, u32(active if agree else 0), mask)
    return FULL_MASK if agree else 0


@row_function
def reduce_lanes(U, d, a, x, flags, active, mask):
    """REDUX: X = AtomicOp (ADD, MIN, MAX, AND, OR, XOR) over active lanes; FLAG_SIGNED: signed extremes."""
    values = load(U, a)
    first = True
    total = np.int64(0)
    for lane in range(WARP_SIZE):
        if not (active >> lane) & 1:
            continue
        value = np.int64(element(values, lane))
        if flags & FLAG_SIGNED:
            value = (value ^ 0x80000000) - 0x80000000
        if first:
            total = value
        elif x == AtomicOp.ADD:
            total += value
        elif x == AtomicOp.MIN:
            total = min(total, value)
        elif x == AtomicOp.MAX:
            total = max(total, value)
        elif x == AtomicOp.AND:
            total &= value
        elif x == AtomicOp.OR:
            total |= value
        else:
            total ^= value
        first = False
    store(U, d, u32(total), mask)


@row_function
def broadcast_first(U, d, a, active, mask):
    """R2UR: the first active lane's value in all lanes of `mask`."""
    store(U, d, permute(load(U, a), u32(first_lane(active))), mask)
