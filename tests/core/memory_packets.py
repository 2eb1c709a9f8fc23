"""Packets for the memory system in tests: one at a time, or streams that SMs keep up while some are out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.core.layout import GLOBAL_BASE, Requests, empty_requests
from sim.core.memory_state import LOAD, MemoryConfig
from sim.counters import Mem
from sim.memory_system import MemorySystem
from sim.profile import Profile, load_profile

STEP = 64  #: cycles a step
BASE = GLOBAL_BASE >> 7  #: line of the first byte of global memory
WHOLE = 0xF  #: all sectors of a line
HORIZON = 4096  #: steps that an answer may take


def requests(sms: int, capacity: int) -> Requests:
    """No packets yet, room for `capacity` an SM."""
    return empty_requests(sms, capacity, np.zeros((sms, 1, 1), np.int64))


class Bench:
    """A memory system that takes single packets."""

    def __init__(self, gpu: str | Profile = "toy", **changes: float) -> None:
        self.profile = load_profile(gpu).override({key.replace("__", "."): value for key, value in changes.items()})
        self.memory = MemorySystem(self.profile)
        self.requests = requests(self.profile.gpu.sm_count, 64)

    @property
    def cfg(self) -> MemoryConfig:
        """The configuration, in ticks."""
        return self.memory.config

    def send(
        self,
        time: int,
        *lines: int,
        sm: int = 0,
        kind: int = LOAD,
        sectors: int = WHOLE,
        asked: int = 128,
        ops: int = 0,
    ) -> list[int]:
        """Send a packet for each line, all from one SM at one cycle; cycles from there to their answers."""
        q = self.requests
        q.n[:] = 0
        q.n[sm] = len(lines)
        for k, line in enumerate(lines):
            values = (time, BASE + line, sectors, kind, ops, asked)
            for array, value in zip((q.time, q.line, q.sectors, q.kind, q.ops, q.asked), values, strict=True):
                array[sm, k] = value
        self.memory.weave(q, time, time + STEP)
        return [int(done) - time for done in q.done[sm, : len(lines)]]

    def one(self, time: int, line: int, **options: int) -> int:
        """Send one packet; cycles to its answer."""
        return self.send(time, line, **options)[0]

    def count(self, what: Mem) -> int:
        """A count of the memory system."""
        return int(self.memory.counts()[what])


@dataclass
class Stream:
    """Packets of every SM, in order: `[sms, n]`; SM `m` sends `length[m]` of them."""

    line: npt.NDArray[np.int64]
    sectors: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]
    asked: npt.NDArray[np.int64]
    ops: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]


def stream_of(per_sm: list[npt.NDArray[np.int64]]) -> Stream:
    """A stream of one array `[n, 5]` an SM: line from the start of memory, sectors, kind, asked bytes, operations."""
    longest = max(len(rows) for rows in per_sm)
    table = np.zeros((5, len(per_sm), longest), np.int64)
    for sm, rows in enumerate(per_sm):
        table[:, sm, : len(rows)] = rows.T
    line, sectors, kind, asked, ops = table
    return Stream(line + BASE, sectors, kind, asked, ops, np.array([len(rows) for rows in per_sm]))


def run(memory: MemorySystem, stream: Stream, *, start: int = 1000, outstanding: int = 768, rate: float = 1.0) -> int:
    """Send a stream as `rate` (cycles a packet) and `outstanding` packets of an SM allow; cycles to the last answer."""
    sms = len(stream.length)
    capacity = int(STEP / rate) + 1
    q = requests(sms, capacity)
    sent = np.zeros(sms, np.int64)
    out = np.zeros(sms, np.int64)
    due = np.zeros((HORIZON, sms), np.int64)
    slot = np.arange(capacity)
    now, last = start, start
    while (sent < stream.length).any() or out.any():
        step = (now - start) // STEP
        out -= due[step % HORIZON]
        due[step % HORIZON] = 0
        n = np.minimum(np.minimum(outstanding - out, stream.length - sent), int(STEP / rate))
        if n.any():
            at = np.minimum(sent[:, None] + slot, stream.line.shape[1] - 1)
            q.n[:] = n
            q.time[:] = now + (slot * rate).astype(np.int64)
            for array, source in (
                (q.line, stream.line),
                (q.sectors, stream.sectors),
                (q.kind, stream.kind),
                (q.asked, stream.asked),
                (q.ops, stream.ops),
            ):
                array[:] = np.take_along_axis(source, at, 1)
            memory.weave(q, now, now + STEP)
            n = q.n  # the rest stays in the SMs
            sm, k = np.nonzero(slot < n[:, None])
            done = q.done[sm, k]
            last = max(last, int(done.max(initial=0)))
            np.add.at(due, ((-(-(done - start) // STEP)) % HORIZON, sm), 1)
            sent += n
            out += n
        now += STEP
    return last - start


def blocks_of_lines(profile: Profile, mib: int, *arrays: tuple[int, int], lines: int = 32) -> Stream:
    """Blocks of `lines` lines dealt to SMs in turn; each does `arrays` in order: (array, kind), `mib` MiB each."""
    total = mib * 8192
    block = np.arange(total).reshape(-1, lines)
    per_sm = []
    for sm in range(profile.gpu.sm_count):
        mine = block[sm :: profile.gpu.sm_count]
        line = np.concatenate([mine + (number << 24) for number, _ in arrays], 1).reshape(-1)
        kind = np.tile(np.repeat([kind for _, kind in arrays], lines), len(mine))
        rows = np.zeros((len(line), 5), np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = line, WHOLE, kind, 128
        per_sm.append(rows)
    return stream_of(per_sm)


def warp_packets(elements: npt.NDArray[np.int64], array: int, kind: int, size: int = 4) -> list[npt.NDArray[np.int64]]:
    """Packets of each warp that accesses `elements[warps, 32]` of an array: one a line, with its sectors."""
    byte = elements * size
    warp = np.broadcast_to(np.arange(len(byte))[:, None], byte.shape)
    packet, which = np.unique((warp << 32 | byte >> 7).reshape(-1), return_inverse=True)
    bytes_of = np.zeros((len(packet), 4), np.int64)
    np.add.at(bytes_of, (which.reshape(-1), (byte >> 5 & 3).reshape(-1)), size)
    bits = 1 << np.arange(4)
    sectors = ((bytes_of > 0) * bits).sum(1)
    if kind != LOAD:
        sectors |= ((bytes_of > 0) & (bytes_of < 32)) @ bits << 4
    rows = np.zeros((len(packet), 5), np.int64)
    rows[:, 0] = (packet & 0xFFFFFFFF) + (array << 24)
    rows[:, 1], rows[:, 2], rows[:, 3] = sectors, kind, bytes_of.sum(1)
    return np.split(rows, np.searchsorted(packet >> 32, np.arange(1, len(byte))))


def deal(sms: int, *accesses: list[npt.NDArray[np.int64]], warps: int = 8) -> Stream:
    """Blocks of `warps` warps dealt to SMs in turn; a block's warps make each access before the next one."""
    per_sm: list[list[npt.NDArray[np.int64]]] = [[np.zeros((0, 5), np.int64)] for _ in range(sms)]
    for block, first in enumerate(range(0, len(accesses[0]), warps)):
        for access in accesses:
            per_sm[block % sms] += access[first : first + warps]
    return stream_of([np.concatenate(rows) for rows in per_sm])


def bytes_per_second(memory: MemorySystem, profile: Profile, cycles: int) -> float:
    """GB/s that DRAM moved."""
    counts = memory.counts()
    return (counts[Mem.DRAM_READ] + counts[Mem.DRAM_WRITE]) * 32 * profile.gpu.clock_mhz / cycles / 1000
