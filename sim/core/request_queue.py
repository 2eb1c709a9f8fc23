"""The queue of an SM's requests to L2, before its port: packets of a line each, which leave in order."""

from __future__ import annotations

from sim._jit import inner
from sim.core.access import popcount
from sim.core.layout import (
    C_HALF_FLIT,
    C_MERGE_CYCLES,
    C_MERGE_LINES,
    E_LEFT,
    OPS_SHIFT,
    R_BYTES,
    R_FIRST,
    R_KIND,
    R_L1,
    R_LINE,
    R_SECTORS,
    R_TIME,
    R_WAITERS,
    RING,
    RK_STORE,
    SV_BACKLOG,
    SV_LAST_PACKET,
    SV_PACKETS,
    SV_PORT,
    SV_SENT,
    TICK,
)
from sim.core.xbar import half_flits

SECTOR_BYTES = 32
WHOLE = 15  #: all sectors of a line


@inner(inline="always")
def ring_room(a):
    """Packets that still fit into the ring."""
    return RING - (a.sv[SV_PACKETS] - a.sv[SV_SENT])


@inner(inline="always")
def send(a, s, m, time, line, sectors, kind, ops, asked, l1, entry):
    """Queue a packet to the crossbar; packets of an SM leave in order. Returns its place in the ring.

    `entry` waits for it, unless it is -1.
    """
    sv = a.sv
    n = sv[SV_PACKETS]
    k = n % RING
    time = max(time, sv[SV_LAST_PACKET])
    sv[SV_LAST_PACKET] = time
    rq = a.rq
    rq[k, R_TIME] = time
    rq[k, R_LINE] = line
    rq[k, R_SECTORS] = sectors
    rq[k, R_KIND] = kind | ops << OPS_SHIFT
    rq[k, R_BYTES] = asked
    rq[k, R_FIRST] = entry
    if entry >= 0:
        a.en[entry, E_LEFT] += 1
    rq[k, R_WAITERS] = -1
    rq[k, R_L1] = l1
    sv[SV_PACKETS] = n + 1
    sv[SV_PORT] = max(sv[SV_PORT], time * TICK)
    wait_for_port(sv, s.cfg, half_flits(kind, sectors))
    return k


@inner(inline="always")
def wait_for_port(sv, cfg, size):
    """So many half flits more wait for the SM's port to L2."""
    sv[SV_BACKLOG] += size
    sv[SV_PORT] += size * cfg[C_HALF_FLIT]


@inner
def merge_store(a, s, w, time, line, sectors, asked):
    """Let a store go with one of the same warp and line, among the last packets, that waits; whether there is one.

    A packet leaves when those before it have, but not at once (microbench_15, `quarters`, `halves`); stores of two
    warps do not join (`two_warps`). Bytes are counted, not masked: sectors of which enough bytes are stored are whole.
    """
    sv, cfg = a.sv, s.cfg
    leaves = sv[SV_PORT]
    for n in range(sv[SV_PACKETS] - 1, max(sv[SV_SENT], sv[SV_PACKETS] - cfg[C_MERGE_LINES]) - 1, -1):
        packet = a.rq[n % RING]
        size = half_flits(packet[R_KIND] & ((1 << OPS_SHIFT) - 1), packet[R_SECTORS])
        leaves -= size * cfg[C_HALF_FLIT]
        if max(leaves, (packet[R_TIME] + cfg[C_MERGE_CYCLES]) * TICK) < time * TICK:
            return False
        if packet[R_LINE] == line and packet[R_KIND] == RK_STORE | w << OPS_SHIFT:
            stored = (packet[R_SECTORS] | sectors) & WHOLE
            part = (packet[R_SECTORS] >> 4 | packet[R_SECTORS] ^ WHOLE) & (sectors >> 4 | sectors ^ WHOLE) & stored
            packet[R_TIME] = time
            packet[R_BYTES] += asked
            if packet[R_BYTES] >= popcount(stored) * SECTOR_BYTES:
                part = 0
            packet[R_SECTORS] = stored | part << 4
            wait_for_port(sv, cfg, half_flits(RK_STORE, packet[R_SECTORS]) - size)
            return True
    return False
