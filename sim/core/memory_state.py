"""State and configuration of the memory system: arrays with named columns, and scalars.

Times are *ticks* of 1/TICK SM cycle, `int64`, so that a burst of 2.53 cycles or a
port slot of 1.07 can be had in integers. `sim.memory_system` makes both tuples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sim._jit import jit

kernel = jit(_nrt=False)  #: compile without reference counts: these functions allocate nothing
inlined = jit(_nrt=False, inline="always")  #: copied into its one or two callers: passing many arrays costs more

TICK_BITS = 8
TICK = 1 << TICK_BITS  #: ticks an SM cycle
NEVER = 1 << 60

Int64s = npt.NDArray[np.int64]

# --- kinds of request packets
LOAD, STORE, ATOMIC, REDUCTION, FETCH = range(5)

# --- L2: sets[partition * sets of it + slice * sets of it + set, way], latest used way first: -1, or a line's number
#     << STATE_BITS | its state
STATE_BITS = 30
STATE = (1 << STATE_BITS) - 1
VALID = 0xF  #: the sector's 32 bytes are here
DIRTY_SHIFT = 4
DIRTY = 0xF << DIRTY_SHIFT  #: the sector has bytes that DRAM has not
BYTES_SHIFT = 8  #: 5 bits a sector: bytes written, while only some of a sector's are here; of a copy: its first SM
BYTES_BITS = 5
BYTES = 0xFFFFF << BYTES_SHIFT
COPY = 1 << 28  #: a copy of a line of the other partition
SHARED = 1 << 29  #: the other partition may hold a copy; of a copy: several SMs want it

# --- SMs: sms[sm, M_COLUMNS]
(
    M_PARTITION,
    M_GPC,
    M_REQUEST_FREE,  # its port takes the next packet
    M_LAST,  # 1: the last packet was the TMA unit's
    M_STORED,  # when a slice takes the last of its stores
    M_DISTANCE,  # ticks that the way to a slice, or back, takes longer than on average
) = range(6)
M_COLUMNS = 6

# --- CPCs, the parts of a GPC whose SMs share a way to L2: cpcs[cpc, C_FIRST + most SMs of one]
C_FREE, C_SMS, C_FIRST = range(3)  # its port takes the next packet; how many SMs; their numbers

# --- what each SM of a CPC sends next: heads[SM of the CPC, H_COLUMNS]
(
    H_TIME,  # when its port can send a packet
    H_LATER,  # when it could one of either, its own or its TMA unit's
    H_FIRST,  # 1: the TMA unit's is first, 0: its own
    H_OWN,  # the next of its own, by sequence
    H_TMA,  # the next of its TMA unit
    H_COUNT,  # packets of the SM
) = range(6)
H_COLUMNS = 6

# --- slices of all partitions: slices[place, S_COLUMNS]: when each takes its next request
(
    S_PORT,  # its input
    S_TMA,  # its input, if there were loads by TMA only
    S_CROSS,  # its share of the way out of its partition
    S_ATOMIC,  # its atomic unit
) = range(4)
S_COLUMNS = 4

# --- fills on their way, direct-mapped: flight[partition, entry, F_COLUMNS]
(
    F_LINE,  # -1 empty
    F_FILLING,  # sectors whose data is not here before F_READY
    F_READY,  # data is at this partition's slice
    F_OWNER,  # -1: F_READY is known; else 2 * packet of this chunk, + 1 when its home time counts
) = range(4)
F_COLUMNS = 4
FLIGHT_BITS = 14  #: entries of a partition, a power of two

# --- loads that others of the same GPC may join, direct-mapped: joins[gpc, entry, J_COLUMNS]
(
    J_WHAT,  # line and sectors; -1 empty
    J_UNTIL,  # arrivals up to here may join
    J_PLACES,  # for so many more
    J_READY,  # data is at the near slice
    J_OWNER,  # -1: J_READY is known; else packet of this chunk
    J_SM,  # of the first
) = range(6)
J_COLUMNS = 8
JOIN_BITS = 10

# --- loads of a line that may be joined, in any GPC of a partition: opened[partition, entry, O_COLUMNS]
(
    O_WHAT,  # line and sectors; -1 none, for loads of other sectors ended it
    O_UNTIL,  # loads that arrive up to here join, or end it
) = range(2)
O_COLUMNS = 2
OPENED_BITS = 14

SEQUENCE_BITS = 20  #: of a packet's number among those of its SM
SEQUENCE = (1 << SEQUENCE_BITS) - 1

# --- packets of a chunk: batch[packet, B_COLUMNS]
(
    B_READY,  # data at the near slice, as far as known
    B_HOME,  # data at the home slice
    B_BACK,  # home slice to near slice
    B_WAIT,  # DRAM request that brings the data, -1 none
    B_DEPENDS,  # whose data this packet gets, coded as F_OWNER, -1 nobody's
    B_FIRST,  # first DRAM request that the packet caused
    B_ENTRY,  # number of the flight entries (near, home) that the packet owns perhaps, -1 none
    B_JOIN,  # number of the joins entry that it owns perhaps, -1 none
) = range(8)
B_COLUMNS = 8
CHUNK = 2048  #: packets worked off together, so that scratch arrays stay small
AHEAD = 64  #: packets whose sets are brought into the host's caches together

# --- what a look-up does to the sets it touched: touch[near or home, T_COLUMNS]
T_ROW, T_WAY, T_WORD, T_TIME = range(4)  # T_ROW -1: nothing; T_WAY -1: the line is new
T_COLUMNS = 4

# --- DRAM requests of a chunk: requests[n, R_COLUMNS]
(
    R_TIME,
    R_LINE,
    R_SECTORS,
    R_WRITE,
    R_CHANNEL,
    R_BANK,
    R_ROW,
    R_DONE,  # read: data at the home slice; write: the channel's queue has taken it
) = range(8)
R_COLUMNS = 8

# --- channels of all partitions: channels[channel, D_COLUMNS]
(
    D_BUS_FREE,
    D_GAP_START,  # an idle stretch of the bus that an earlier request may still use
    D_GAP_END,
    D_WRITING,  # 1: the last data on the bus was written
    D_REFRESH,  # next refresh is due
    D_ACTIVATE_FREE,
    D_WRITES,  # waiting in the write queue
    D_ADMITTED,  # writes ever
    D_DEPARTED,
    D_BUSY,  # ticks with data on the bus
    D_LATER,  # dirty lines that waited ever for the channel to be idle
    D_LATER_DONE,
) = range(12)
D_COLUMNS = 12

# --- dirty lines that are written when their channel is idle: later[channel, number % entries, L_COLUMNS]
L_LINE, L_SECTORS, L_TIME = range(3)
L_COLUMNS = 3

# --- banks: banks[channel, bank, K_COLUMNS]
(
    K_ROW,  # open row, -1 none
    K_COLUMN,  # it takes a column command
    K_PRECHARGE,  # it may close
    K_ACTIVATE,  # a closed bank may open a row
) = range(4)
K_COLUMNS = 4

# --- write queues: writes[channel, entry, W_COLUMNS]
W_BANK, W_ROW, W_BURSTS, W_TIME, W_DEPARTURE = range(5)  # W_DEPARTURE: of the D_DEPARTED-th write, modulo entries
W_COLUMNS = 5

# --- ports that are booked out of the order of time: calendar[port, bucket]: bucket number << USED_BITS | ticks used
BUCKET_BITS = TICK_BITS + 5  #: 32 cycles
CALENDAR = 256  #: buckets, a power of two: 8192 cycles ahead
USED_BITS = 20
FULL_FROM, FULL_TO = CALENDAR, CALENDAR + 1  #: columns: a run of buckets that are known to be full

ARRIVAL_BUCKETS = 4096  #: cycles that the sort by arrival tells apart


class MemoryConfig(NamedTuple):
    """Everything about the memory system that does not change. Times and rates in ticks."""

    sms: int
    partitions: int
    # L2
    slices: int  # of a partition
    sets: int  # of a slice
    ways: int
    dirty_ways: int
    dirty_lines: int  # of a set on average, in 1/TICK
    partial_lines: int
    fetch_sectors: int  # 1, 2 or 4: aligned group that a miss fetches
    sector_bytes: int
    request_latency: int  # SM to slice
    slice_latency: int  # look-up to data at the slice
    response_latency: int  # slice to SM
    cross_latency: int  # near slice to home slice
    cross_back_latency: int
    sm_half_flit: int  # SM request port: half a sector's worth
    cpc_half_flit: int  # CPC request port
    response_sector: int  # SM response port
    gpc_sector: int  # GPC response port
    slice_request: int  # slice input, a packet that is answered with data at least
    slice_sector: int
    slice_queue: int  # what waits before the slices, on average, beyond which stores take the CPCs' ports for longer
    cross_sector: int  # a slice's share of the way out of its partition
    cross_slices: int  # of all slices, so many have such a way; the others share theirs
    atomic_sector: int
    atomic_same_address: int
    atomic_lines: int
    coalesce_window: int
    after_join: int  # ticks from the arrival of a load that joins to its answer, at least
    coalesce_requests: int
    # DRAM
    channels: int  # of a partition
    banks: int
    rows: int  # of a bank
    sector_bursts: int  # bursts a sector, 1 when a burst is longer
    burst_sectors: int  # sectors a burst, 1 when a burst is shorter
    burst: int  # data on the bus
    column_interval: int  # bursts of one request, which are of one bank group (tCCD_L)
    activate_interval: int  # larger of tRRD and tFAW / 4
    row_to_column: int  # tRCD
    precharge: int  # tRP
    column_latency: int  # tCL
    row_active: int  # tRAS
    write_recovery: int  # tWR
    write_to_read: int  # bus idle, last write data to read data
    read_to_write: int  # bus idle
    refresh_interval: int  # tREFI
    refresh: int  # tRFC
    controller_latency: int
    read_window: int
    write_entries: int
    write_batch: int
    # divisors of the address maps, as reciprocals
    inverse_slices: float
    inverse_sets: float
    inverse_interleave: float
    inverse_channels: float
    inverse_banks: float
    inverse_rows: float


class MemoryState(NamedTuple):
    """All that lasts from one call of `weave` to the next, and its scratch."""

    sets: Int64s
    slices: Int64s
    sms: Int64s
    cpcs: Int64s
    responses: Int64s  # calendars of the response ports: SMs, then GPCs
    flight: Int64s
    joins: Int64s
    opened: Int64s
    channels: Int64s
    banks: Int64s
    writes: Int64s
    later: Int64s
    counts: Int64s  # [len(Mem)]
    slice_busy: Int64s  # [1] ticks, all slices
    # scratch
    stretches: Int64s  # [partition] how much longer stores take the CPCs' ports, in 1/TICK
    heads: Int64s
    arrive: Int64s  # [sm, packets] at the slices
    order: Int64s  # [packets] SM << SEQUENCE_BITS | sequence, by arrival
    bucket: Int64s  # [ARRIVAL_BUCKETS + 1]
    batch: Int64s
    touch: Int64s
    places: Int64s  # [AHEAD] `l2_set` of packets' lines
    requests: Int64s
    request_count: Int64s  # [1]
    by_channel: Int64s  # [requests] request numbers by channel and time
    channel_start: Int64s  # [channels + 1] first of a channel in `by_channel`
    window: Int64s  # [read_window] reads that a channel chooses from
