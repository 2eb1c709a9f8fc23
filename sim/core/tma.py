"""The tensor memory accelerator: boxes of tensors, and runs of bytes, between global and shared memory.

The data moves when the instruction issues; the packets leave one after another from
then on, in the order of the instructions, and when the last of them is answered the
mbarrier learns that the bytes have come (or the group of stores that they are stored).
What touches other blocks, and reductions, wait as a job for the step's end (`sim.core.cluster`).
"""

from __future__ import annotations

import numpy as np

from sim._jit import inner
from sim.core.access import lowest_lane
from sim.core.exec_atomic import modified
from sim.core.exec_memory import clear_bytes, move_bytes
from sim.core.exec_wgmma import swizzled
from sim.core.layout import (
    AG_LEFT,
    AG_TIME,
    B_RANK,
    B_SHARED,
    C_CLUSTER,
    C_CLUSTER_LATENCY,
    C_CLUSTER_SECTOR,
    C_SHARED_LIMIT,
    C_SHARED_WINDOW,
    C_TMA_END,
    C_TMA_INSTRUCTION,
    C_TMA_LINE,
    C_TMA_MAP,
    C_TMA_START,
    ERROR_DESCRIPTOR,
    ERROR_MISALIGNED,
    ERROR_NO_BLOCK,
    ERROR_SHARED_BOUNDS,
    ERROR_TENSOR_BOUNDS,
    GLOBAL_BASE,
    J_ADDRESS,
    J_ARRIVALS,
    J_BARRIER,
    J_BYTES,
    J_COORDINATES,
    J_ISSUED,
    J_KIND,
    J_LANE,
    J_MASK,
    J_PC,
    J_SHARED,
    J_TIME,
    J_WARP,
    J_X,
    JOB_COPY,
    JOB_PUSH,
    JOB_REDUCE,
    MAX_GROUPS,
    MAX_MAPS,
    MAX_SLOTS,
    MAX_TRANSFERS,
    RECORD_TIMES,
    RK_LOAD,
    RK_REDUCTION,
    RK_STORE,
    SV_CLUSTER_FREE,
    SV_JOBS,
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
    TR_MASK,
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
    CLUSTER_SHIFT,
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
    TMA_CLUSTER,
    TMA_MULTICAST,
    TMA_OPERATION,
    TMA_PREFETCH,
    TMA_REDUCE,
    TMA_STORE,
    TMA_TYPE,
    Col,
    NumberType,
)

COL_A, COL_B, COL_C, COL_X = int(Col.A), int(Col.B), int(Col.C), int(Col.X)
COL_NC = int(Col.NC)
TMA_TRACK = int(Track.TMA)
UNIT = 16  #: bytes that stay together in shared memory
OFFSET_MASK = (1 << CLUSTER_SHIFT) - 1
SECTOR_BYTES = 32
NOTHING, LOADS, STORES, REDUCES = range(4)  #: what `walk` does to data
U16, S16, U64, S64 = int(NumberType.U16), int(NumberType.S16), int(NumberType.U64), int(NumberType.S64)
F16, BF16, F64 = int(NumberType.F16), int(NumberType.BF16), int(NumberType.F64)
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
    """Fill the work rows from a tensor map; returns (address of the tensor, bytes of an element, swizzle, number type).

    No bytes of an element: there is no such map, and the error is noted.
    """
    work = a.scratch
    if address >> 40 == CONSTANT_WINDOW >> 40:
        memory, at = s.bank8, address - CONSTANT_WINDOW
        inside = 0 <= at and at + MAP_BYTES <= len(s.bank8)
    else:
        memory, at = s.g8, address - GLOBAL_BASE
        inside = allocation_of(s, address, MAP_BYTES) >= 0
    if not inside or at % 8 != 0:
        fail(a, s, m, w, pc, ERROR_DESCRIPTOR, 0, address, MAP_BYTES)
        return 0, 0, 0, 0
    shape = map_word(memory, at, MAP_SHAPE)
    rank = (shape >> 32) & 255
    if shape & 0xFFFFFFFF != MAP_MAGIC or rank != dimensions:
        fail(a, s, m, w, pc, ERROR_DESCRIPTOR, 0, address, MAP_BYTES)
        return 0, 0, 0, 0
    box = map_word(memory, at, MAP_BOX)
    for d in range(MAP_MAX_RANK):
        work[SIZES, d] = map_word(memory, at, MAP_SIZES + d) if d < rank else 1
        work[BOX, d] = (box >> (MAP_BOX_BITS * d)) & ((1 << MAP_BOX_BITS) - 1) if d < rank else 1
        work[STRIDES, d] = map_word(memory, at, MAP_STRIDES + d - 1) if 0 < d < rank else 0
    return map_word(memory, at, MAP_ADDRESS), (shape >> 48) & 255, (shape >> 40) & 255, (shape >> 56) & 15


@inner
def new_transfer(a, w, barrier, size, group, mask, pc, t):
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
    transfer[TR_MASK] = mask
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
def map_there(a, s, address, t):
    """The tick at which the unit has the tensor map at `address`, which it fetches if it does not hold it."""
    oldest = 0
    for k in range(MAX_MAPS):
        if a.maps[k, 0] == address:
            return a.maps[k, 1] * TICK
        if a.maps[k, 1] < a.maps[oldest, 1]:
            oldest = k
    a.maps[oldest, 0] = address
    a.maps[oldest, 1] = t + s.cfg[C_TMA_MAP]
    return a.maps[oldest, 1] * TICK


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
def read_operands(a, s, m, w, pc, base, lane, job):
    """Fill a job from a TMA instruction's operands; places in shared memory have the rank of a block above them."""
    code, window = s.code, s.cfg[C_SHARED_WINDOW]
    x = code[pc, COL_X]
    word = 0  # of operand a
    job[J_X] = x
    job[J_LANE] = lane
    job[J_SHARED] = job[J_BARRIER] = 0
    if not x & TMA_PREFETCH:
        job[J_SHARED] = operand_word(s, m, code[pc, COL_A], base, lane, 0) - window
        word = 1
        if not x & TMA_STORE:
            job[J_BARRIER] = operand_word(s, m, code[pc, COL_A], base, lane, 1) - window
            word = 2
    job[J_ADDRESS] = operand_word(s, m, code[pc, COL_B], base, lane, 0)
    if x & TMA_CLUSTER:
        job[J_ADDRESS] = (job[J_ADDRESS] & OFFSET_MASK) - window
    else:
        job[J_ADDRESS] |= operand_word(s, m, code[pc, COL_B], base, lane, 1) << 32
    control = operand_word(s, m, code[pc, COL_C], base, lane, 0) if code[pc, COL_NC] else 0
    job[J_BYTES] = (control & 0xFFFF) * UNIT
    job[J_MASK] = control >> 16 if x & TMA_MULTICAST else 0
    for d in range(MAP_MAX_RANK):
        job[J_COORDINATES + d] = 0
        if d < x & 7:
            job[J_COORDINATES + d] = signed(operand_word(s, m, code[pc, COL_A], base, lane, word + d))


@inner
def lay_out(a, s, m, w, pc, job):
    """Fill the work rows for a job's box; returns (address of the tensor, bytes of an element, swizzle, number type).

    No bytes of an element: an error is noted.
    """
    work, dimensions = a.scratch, job[J_X] & 7
    kind, swizzle, element = (job[J_X] >> TMA_TYPE) & 15, 0, 1
    tensor = job[J_ADDRESS]
    if dimensions:
        tensor, element, swizzle, kind = read_map(a, s, m, w, pc, tensor, dimensions)
    for d in range(MAP_MAX_RANK):
        work[INDEX, d] = 0
        work[COORDINATES, d] = job[J_COORDINATES + d]
        if dimensions == 0:
            work[SIZES, d] = work[BOX, d] = job[J_BYTES] if d == 0 else 1
            work[STRIDES, d] = 0
    if dimensions == 0 and tensor % UNIT != 0:
        fail(a, s, m, w, pc, ERROR_MISALIGNED, job[J_LANE], tensor, UNIT)
        return 0, 0, 0, 0
    if element == 0 or not box_inside(a, s, m, w, pc, tensor, element):
        return 0, 0, 0, 0
    return tensor, element, swizzle, kind


@inner
def reduce_row(a, s, home, shared, swizzle, address, low, high, operation, kind, element):
    """Bytes low to high - 1 of one row of a box at offset `shared` are added to (or ...) those of global memory."""
    for at in range(low, high, element):
        unit = at // UNIT * UNIT
        here = home + swizzled(shared + unit, swizzle) + at - unit
        old = new = np.int64(0)
        for byte in range(element):
            old |= np.int64(s.g8[address + at + byte]) << (8 * byte)
            new |= np.int64(a.s8[here + byte]) << (8 * byte)
        new = modified(operation, kind, element, old, new, 0)
        for byte in range(element):
            s.g8[address + at + byte] = (new >> (8 * byte)) & 255


@inner
def walk(a, s, target, home, job, tensor, element, swizzle, kind, does, transfer, tick):
    """Go over the rows of the box that the work rows describe; returns the tick after its last packet.

    `does`: what happens to the data (NOTHING, LOADS, STORES, REDUCES; a number of `kind`), in the shared memory of
    the SM `target` from `home` on. `transfer`: whose packets leave from `tick` on, -1 none.
    """
    work = a.scratch
    row_bytes = work[BOX, 0] * element
    size = element_bytes(kind) if does == REDUCES else 0
    low = max(-work[COORDINATES, 0], 0) * element
    high = min(work[SIZES, 0] - work[COORDINATES, 0], work[BOX, 0]) * element
    at = job[J_SHARED] & OFFSET_MASK
    more = True
    while more:
        here = tensor + work[COORDINATES, 0] * element
        inside = low < high
        for d in range(1, MAP_MAX_RANK):
            place = work[COORDINATES, d] + work[INDEX, d]
            inside = inside and 0 <= place < work[SIZES, d]
            here += place * work[STRIDES, d]
        end = high if inside else low
        if does == REDUCES:
            operation = (job[J_X] >> TMA_OPERATION) & 15
            reduce_row(target, s, home, at, swizzle, here - GLOBAL_BASE, low, end, operation, kind, size)
        elif does != NOTHING:
            copy_row(target, s, home, at, swizzle, here - GLOBAL_BASE, low, end, row_bytes, does == STORES)
        if inside and transfer >= 0:
            packets = RK_REDUCTION if job[J_X] & TMA_REDUCE else RK_STORE if job[J_X] & TMA_STORE else RK_LOAD
            tick = send_run(a, s, here + low, high - low, packets, transfer, tick)
        at += row_bytes
        more = advance(a, BOX)
    return tick


@inner
def element_bytes(kind):
    """Bytes of a number."""
    if kind == U64 or kind == S64 or kind == F64:
        return 8
    return 2 if kind == F16 or kind == BF16 or kind == U16 or kind == S16 else 4


@inner
def shared_inside(a, s, m, w, pc, job, at, size):
    """Whether `size` bytes at offset `at` of a block's shared memory are there and aligned; else notes the error."""
    if at < 0 or at + size > s.cfg[C_SHARED_LIMIT]:
        fail(a, s, m, w, pc, ERROR_SHARED_BOUNDS, job[J_LANE], at, size)
        return False
    if at % UNIT != 0:
        fail(a, s, m, w, pc, ERROR_MISALIGNED, job[J_LANE], at, UNIT)
        return False
    return True


@inner
def keep_job(a, w, pc, t, kind, job):
    """Let a job that is filled in so far be done at the step's end."""
    job[J_KIND] = kind
    job[J_WARP] = w
    job[J_PC] = pc
    job[J_ISSUED] = t
    a.sv[SV_JOBS] += 1


@inner
def push(a, s, m, w, pc, job, t):
    """UBLKCP.S.S: bytes of the own shared memory to that of a block of the cluster, whose mbarrier they complete."""
    size, to = job[J_BYTES], job[J_SHARED]
    if not shared_inside(a, s, m, w, pc, job, job[J_ADDRESS], size):
        return
    if to < 0 or to >> CLUSTER_SHIFT >= s.cfg[C_CLUSTER]:
        fail(a, s, m, w, pc, ERROR_NO_BLOCK, job[J_LANE], to >> CLUSTER_SHIFT, 0)
        return
    if not shared_inside(a, s, m, w, pc, job, to & OFFSET_MASK, size):
        return
    begin = max(start_of(a, s, t), a.sv[SV_CLUSTER_FREE])
    end = begin + (size + SECTOR_BYTES - 1) // SECTOR_BYTES * s.cfg[C_CLUSTER_SECTOR]
    a.sv[SV_CLUSTER_FREE] = end
    a.sv[SV_TMA_FREE] = begin + s.cfg[C_TMA_INSTRUCTION]
    job[J_MASK] = 1 << (to >> CLUSTER_SHIFT)
    job[J_BARRIER] &= OFFSET_MASK
    job[J_ARRIVALS] = 0
    job[J_TIME] = end // TICK + s.cfg[C_CLUSTER_LATENCY] + s.cfg[C_TMA_END]
    keep_job(a, w, pc, t, JOB_PUSH, job)


@inner
def issue_tma(a, s, m, w, pc, base, on, t):
    """A tensor's box, or a run of bytes, to or from shared memory, or into L2 only."""
    cfg, work = s.cfg, a.scratch
    slot = a.ws[w, W_SLOT]
    home = a.bs[slot, B_SHARED]
    job = a.jb[a.sv[SV_JOBS]]
    read_operands(a, s, m, w, pc, base, lowest_lane(on), job)
    x, rank = job[J_X], job[J_SHARED] >> CLUSTER_SHIFT
    if x & TMA_CLUSTER:
        push(a, s, m, w, pc, job, t)
        return
    store, prefetch = x & TMA_STORE != 0, x & TMA_PREFETCH != 0
    if not store and not prefetch and job[J_MASK] == 0 and rank > 0 and rank != a.bs[slot, B_RANK]:
        job[J_MASK] = 1 << rank
    mask = job[J_MASK]
    shared, barrier = job[J_SHARED] & OFFSET_MASK, job[J_BARRIER] & OFFSET_MASK
    tensor, element, swizzle, kind = lay_out(a, s, m, w, pc, job)
    if element == 0:
        return
    total = element
    for d in range(MAP_MAX_RANK):
        total *= work[BOX, d]
    if not prefetch and not shared_inside(a, s, m, w, pc, job, shared, total):
        return
    if mask >> cfg[C_CLUSTER] != 0:
        fail(a, s, m, w, pc, ERROR_NO_BLOCK, job[J_LANE], highest(mask), 0)
        return
    later = mask != 0 or x & TMA_REDUCE != 0
    does = NOTHING if prefetch or later else STORES if store else LOADS
    group = a.ws[w, W_GROUP] % MAX_GROUPS if store else -1
    waiting = barrier if mask else home + barrier
    k = new_transfer(a, w, -1 if store or prefetch else waiting, total, group, mask, pc, t)
    begin = start_of(a, s, t)
    if x & 7:
        begin = max(begin, map_there(a, s, job[J_ADDRESS], t))
    tick = walk(a, s, a, home, job, tensor, element, swizzle, kind, does, k, begin)
    a.sv[SV_TMA_FREE] = max(tick, begin + cfg[C_TMA_INSTRUCTION])
    if later:
        job[J_BYTES] = total
        job[J_TIME] = tick // TICK + cfg[C_TMA_END]
        job[J_ARRIVALS] = 0
        # Where the box lies outside the tensor no packet tells of its zeros.
        job[J_BARRIER] = barrier if mask and a.tr[k, TR_LEFT] == 0 else -1
        keep_job(a, w, pc, t, JOB_COPY if mask else JOB_REDUCE, job)
    if a.tr[k, TR_LEFT] == 0:
        if not store and not prefetch and not mask:
            will_complete(a, home + barrier, tick // TICK + cfg[C_TMA_END], total, 0)
        return
    a.ws[w, W_PENDING] += 1
    if store:
        a.ag[w, group, AG_LEFT] += 1


@inner
def highest(mask):
    """The highest block of a mask."""
    rank = 0
    while mask >> (rank + 1) != 0:
        rank += 1
    return rank


@inner
def packet_answered(st, s, m, k, done, peers):
    """One of TMA's packets is answered at `done`; with the last of an instruction, its bytes have come."""
    a = st[m]
    transfer = a.tr[a.tq[k % TMA_RING, TQ_TRANSFER]]
    transfer[TR_TIME] = max(transfer[TR_TIME], done)
    transfer[TR_LEFT] -= 1
    if transfer[TR_LEFT] > 0:
        return
    w, group = transfer[TR_WARP], transfer[TR_GROUP]
    end = transfer[TR_TIME] + s.cfg[C_TMA_END]
    if a.sv[SV_RECORD] == RECORD_TIMES:
        note(a, s, m, TMA_TRACK, 0, w, transfer[TR_PC], transfer[TR_ISSUED], end)
    a.ws[w, W_PENDING] -= 1
    if group >= 0:
        a.ag[w, group, AG_LEFT] -= 1
        a.ag[w, group, AG_TIME] = max(a.ag[w, group, AG_TIME], transfer[TR_TIME])
    elif transfer[TR_MASK] != 0:
        for rank in range(s.cfg[C_CLUSTER]):
            if (transfer[TR_MASK] >> rank) & 1:
                peer = peers[m, a.ws[w, W_SLOT], rank]
                b = st[peer // MAX_SLOTS]
                at = b.bs[peer % MAX_SLOTS, B_SHARED] + transfer[TR_BARRIER]
                will_complete(b, at, end, transfer[TR_BYTES], 0)
    elif transfer[TR_BARRIER] >= 0:
        will_complete(a, transfer[TR_BARRIER], end, transfer[TR_BYTES], 0)
