"""The tensor memory accelerator: boxes of tensors, and runs of bytes, between global and shared memory.

The data moves when the instruction issues; the packets leave one after another from
then on, in the order of the instructions, and when the last of them is answered the
mbarrier learns that the bytes have come (or the group of stores that they are stored).
"""

from __future__ import annotations

import numpy as np

from sim._jit import inner
from sim.core.access import lowest_lane
from sim.core.exec_memory import clear_bytes, move_bytes
from sim.core.exec_wgmma import swizzled
from sim.core.layout import (
    AG_LEFT,
    AG_TIME,
    B_SHARED,
    C_SHARED_LIMIT,
    C_SHARED_WINDOW,
    C_TMA_END,
    C_TMA_INSTRUCTION,
    C_TMA_LINE,
    C_TMA_START,
    ERROR_DESCRIPTOR,
    ERROR_MISALIGNED,
    ERROR_SHARED_BOUNDS,
    ERROR_TENSOR_BOUNDS,
    GLOBAL_BASE,
    MAX_GROUPS,
    MAX_TRANSFERS,
    RECORD_TIMES,
    RK_LOAD,
    RK_STORE,
    SV_RECORD,
    SV_TMA_FREE,
    SV_TMA_PACKETS,
    TICK,
    TMA_RING,
    TQ_BYTES,
    TQ_KIND,
    TQ_LINE,
    TQ_SECTORS,
    TQ_TIME,
    TQ_TRANSFER,
    TR_BARRIER,
    TR_BYTES,
    TR_GROUP,
    TR_ISSUED,
    TR_LEFT,
    TR_PC,
    TR_TIME,
    TR_WARP,
    W_GROUP,
    W_PENDING,
    W_SLOT,
)
from sim.core.mbarrier import will_complete, word_of
from sim.core.memory_issue import allocation_of, fail
from sim.core.operands import row_of
from sim.core.record import note
from sim.counters import Track
from sim.isa import (
    CONSTANT_WINDOW,
    MAP_ADDRESS,
    MAP_BOX,
    MAP_BOX_BITS,
    MAP_BYTES,
    MAP_MAGIC,
    MAP_MAX_RANK,
    MAP_SHAPE,
    MAP_SIZES,
    MAP_STRIDES,
    TMA_PREFETCH,
    TMA_STORE,
    Col,
)

COL_A, COL_B, COL_C, COL_X = int(Col.A), int(Col.B), int(Col.C), int(Col.X)
TMA_TRACK = int(Track.TMA)
UNIT = 16  #: bytes that stay together in shared memory
OFFSET_MASK = (1 << 24) - 1
# rows of `scratch` that an instruction of TMA uses
BOX, COORDINATES, INDEX, SIZES, STRIDES = range(5)


@inner
def operand_word(s, m, operand, base, lane, k):
    """The k-th word of an operand, of one lane."""
    return np.int64(s.U[m, row_of(operand, base) + k, lane])


@inner
def signed(word):
    return word - (1 << 32) if word >= 1 << 31 else word


@inner
def map_word(memory, at, k):
    return word_of(memory, at + 8 * k)


@inner
def read_map(a, s, m, w, pc, address, dimensions):
    """Fill the work rows from a tensor map; returns (address of the tensor, bytes of an element, swizzle, rank)."""
    work = a.scratch
    if address >> 40 == CONSTANT_WINDOW >> 40:
        memory, at = s.bank8, address - CONSTANT_WINDOW
        inside = 0 <= at and at + MAP_BYTES <= len(s.bank8)
    else:
        memory, at = s.g8, address - GLOBAL_BASE
        inside = allocation_of(s, address, MAP_BYTES) >= 0
    if not inside or at % 8 != 0:
        fail(a, s, m, w, pc, ERROR_DESCRIPTOR, 0, address, MAP_BYTES)
        return 0, 0, 0
    shape = map_word(memory, at, MAP_SHAPE)
    rank = (shape >> 32) & 255
    if shape & 0xFFFFFFFF != MAP_MAGIC or rank != dimensions:
        fail(a, s, m, w, pc, ERROR_DESCRIPTOR, 0, address, MAP_BYTES)
        return 0, 0, 0
    box = map_word(memory, at, MAP_BOX)
    for d in range(MAP_MAX_RANK):
        work[SIZES, d] = map_word(memory, at, MAP_SIZES + d) if d < rank else 1
        work[BOX, d] = (box >> (MAP_BOX_BITS * d)) & ((1 << MAP_BOX_BITS) - 1) if d < rank else 1
        work[STRIDES, d] = map_word(memory, at, MAP_STRIDES + d - 1) if 0 < d < rank else 0
    return map_word(memory, at, MAP_ADDRESS), (shape >> 48) & 255, (shape >> 40) & 255


@inner
def new_transfer(a, w, barrier, size, group, pc, t):
    """A free place for a transfer, filled in; its packets are still to be counted."""
    k = 0
    while k < MAX_TRANSFERS - 1 and a.tr[k, TR_LEFT] > 0:
        k += 1
    transfer = a.tr[k]
    transfer[TR_LEFT] = 0
    transfer[TR_TIME] = 0
    transfer[TR_BARRIER] = barrier
    transfer[TR_BYTES] = size
    transfer[TR_WARP] = w
    transfer[TR_GROUP] = group
    transfer[TR_PC] = pc
    transfer[TR_ISSUED] = t
    return k


@inner
def send_run(a, s, address, size, kind, transfer, tick):
    """Packets for `size` bytes from `address` on, the first at `tick`; returns the tick after the last."""
    line, last = address >> 7, (address + size - 1) >> 7
    while line <= last:
        first = max(address - (line << 7), 0)
        end = min(address + size - (line << 7), 128)
        packet = a.tq[a.sv[SV_TMA_PACKETS] % TMA_RING]
        packet[TQ_TIME] = tick // TICK
        packet[TQ_LINE] = line
        packet[TQ_SECTORS] = (1 << ((end - 1) // 32 + 1)) - (1 << (first // 32))
        packet[TQ_KIND] = kind
        packet[TQ_BYTES] = end - first
        packet[TQ_TRANSFER] = transfer
        a.sv[SV_TMA_PACKETS] += 1
        a.tr[transfer, TR_LEFT] += 1
        tick += s.cfg[C_TMA_LINE]
        line += 1
    return tick


@inner
def copy_row(a, s, home, shared, swizzle, address, low, high, size, store):
    """One row of a box: `size` bytes at offset `shared`, of which bytes low to high - 1 are in the tensor."""
    for unit in range(0, size, UNIT):
        at = home + swizzled(shared + unit, swizzle)
        first, end = max(low, unit), min(high, unit + UNIT)
        if store:
            if first < end:
                move_bytes(s.g8, address + first, a.s8, at + first - unit, end - first)
        elif first >= end:
            clear_bytes(a.s8, at, min(UNIT, size - unit))
        else:
            if end - first < UNIT:
                clear_bytes(a.s8, at, min(UNIT, size - unit))
            move_bytes(a.s8, at + first - unit, s.g8, address + first, end - first)


@inner
def start_of(a, s, t):
    """The tick at which the unit begins with an instruction that issues in cycle `t`."""
    return max((t + s.cfg[C_TMA_START]) * TICK, a.sv[SV_TMA_FREE])


@inner
def advance(a, box):
    """The next row of a box in `scratch[INDEX]`; false after the last."""
    work = a.scratch
    for d in range(1, MAP_MAX_RANK):
        work[INDEX, d] += 1
        if work[INDEX, d] < work[box, d]:
            return True
        work[INDEX, d] = 0
    return False


@inner
def box_inside(a, s, m, w, pc, tensor, element):
    """Whether the part of the box that is in the tensor lies in one allocation; else notes the error."""
    work = a.scratch
    first = last = tensor
    for d in range(MAP_MAX_RANK):
        low = max(work[COORDINATES, d], 0)
        high = min(work[COORDINATES, d] + work[BOX, d], work[SIZES, d])
        if high <= low:
            return True  # nothing of it
        step = work[STRIDES, d] if d else element
        first += low * step
        last += (high - 1) * step
    if allocation_of(s, first, last + element - first) < 0:
        fail(a, s, m, w, pc, ERROR_TENSOR_BOUNDS, 0, first, last + element - first)
        return False
    return True


@inner
def issue_tma(a, s, m, w, pc, base, on, t):
    """A tensor's box, or a run of bytes, to or from shared memory, or into L2 only."""
    code, cfg, work = s.code, s.cfg, a.scratch
    x, lane = code[pc, COL_X], lowest_lane(on)
    dimensions, store, prefetch = x & 7, x & TMA_STORE != 0, x & TMA_PREFETCH != 0
    home = a.bs[a.ws[w, W_SLOT], B_SHARED]
    shared = barrier = 0
    word = 0  # of operand a
    if not prefetch:
        shared = (operand_word(s, m, code[pc, COL_A], base, lane, 0) & OFFSET_MASK) - cfg[C_SHARED_WINDOW]
        word = 1
        if not store:
            barrier = (operand_word(s, m, code[pc, COL_A], base, lane, 1) & OFFSET_MASK) - cfg[C_SHARED_WINDOW]
            word = 2
    address = operand_word(s, m, code[pc, COL_B], base, lane, 0)
    address |= operand_word(s, m, code[pc, COL_B], base, lane, 1) << 32
    swizzle = 0
    if dimensions:
        tensor, element, swizzle = read_map(a, s, m, w, pc, address, dimensions)
        for d in range(MAP_MAX_RANK):
            work[INDEX, d] = 0
            work[COORDINATES, d] = 0
            if d < dimensions:
                work[COORDINATES, d] = signed(operand_word(s, m, code[pc, COL_A], base, lane, word + d))
        if element == 0 or not box_inside(a, s, m, w, pc, tensor, element):
            return
    else:
        tensor, element = address, 1
        size = (operand_word(s, m, code[pc, COL_C], base, lane, 0) & 0xFFFF) * UNIT
        for d in range(MAP_MAX_RANK):
            work[INDEX, d] = 0
            work[COORDINATES, d] = 0
            work[SIZES, d] = size if d == 0 else 1
            work[BOX, d] = size if d == 0 else 1
            work[STRIDES, d] = 0
        if address % UNIT != 0:
            fail(a, s, m, w, pc, ERROR_MISALIGNED, lane, address, UNIT)
            return
        if not box_inside(a, s, m, w, pc, tensor, 1):
            return
    row_bytes = work[BOX, 0] * element
    total = row_bytes
    for d in range(1, MAP_MAX_RANK):
        total *= work[BOX, d]
    if not prefetch and (shared < 0 or shared + total > cfg[C_SHARED_LIMIT]):
        fail(a, s, m, w, pc, ERROR_SHARED_BOUNDS, lane, shared, total)
        return
    if not prefetch and shared % UNIT != 0:
        fail(a, s, m, w, pc, ERROR_MISALIGNED, lane, shared, UNIT)
        return
    group = a.ws[w, W_GROUP] % MAX_GROUPS if store else -1
    k = new_transfer(a, w, -1 if store or prefetch else home + barrier, total, group, pc, t)
    kind = RK_STORE if store else RK_LOAD
    begin = tick = start_of(a, s, t)
    low = max(-work[COORDINATES, 0], 0) * element
    high = min(work[SIZES, 0] - work[COORDINATES, 0], work[BOX, 0]) * element
    at = shared
    more = True
    while more:
        here = tensor + work[COORDINATES, 0] * element
        inside = low < high
        for d in range(1, MAP_MAX_RANK):
            place = work[COORDINATES, d] + work[INDEX, d]
            inside = inside and 0 <= place < work[SIZES, d]
            here += place * work[STRIDES, d]
        if not prefetch:
            copy_row(a, s, home, at, swizzle, here - GLOBAL_BASE, low, high if inside else low, row_bytes, store)
        if inside:
            tick = send_run(a, s, here + low, high - low, kind, k, tick)
        at += row_bytes
        more = advance(a, BOX)
    a.sv[SV_TMA_FREE] = max(tick, begin + cfg[C_TMA_INSTRUCTION])
    if a.tr[k, TR_LEFT] == 0:
        if not store and not prefetch:
            will_complete(a, home + barrier, tick // TICK + cfg[C_TMA_END], total, 0)
        return
    a.ws[w, W_PENDING] += 1
    if store:
        a.ag[w, group, AG_LEFT] += 1


@inner
def packet_answered(a, s, m, k, done):
    """One of TMA's packets is answered at `done`; with the last of an instruction, its bytes have come."""
    transfer = a.tr[a.tq[k % TMA_RING, TQ_TRANSFER]]
    transfer[TR_TIME] = max(transfer[TR_TIME], done)
    transfer[TR_LEFT] -= 1
    if transfer[TR_LEFT] > 0:
        return
    w, group = transfer[TR_WARP], transfer[TR_GROUP]
    if a.sv[SV_RECORD] == RECORD_TIMES:
        note(a, s, m, TMA_TRACK, 0, w, transfer[TR_PC], transfer[TR_ISSUED], transfer[TR_TIME] + s.cfg[C_TMA_END])
    a.ws[w, W_PENDING] -= 1
    if group >= 0:
        a.ag[w, group, AG_LEFT] -= 1
        a.ag[w, group, AG_TIME] = max(a.ag[w, group, AG_TIME], transfer[TR_TIME])
    elif transfer[TR_BARRIER] >= 0:
        will_complete(a, transfer[TR_BARRIER], transfer[TR_TIME] + s.cfg[C_TMA_END], transfer[TR_BYTES], 0)
