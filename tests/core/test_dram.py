"""DRAM commands of one channel: when data is there, to the cycle, by row state, bank, bus direction and refresh."""

from __future__ import annotations

import numpy as np
import pytest

from sim.core import dram, l2
from sim.core.memory_state import D_REFRESH, R_DONE, R_LINE, R_SECTORS, R_TIME, R_WRITE, TICK
from sim.counters import Mem
from sim.memory_system import memory_config, memory_state
from sim.profile import load_profile

#: The toy's times in cycles (its clock is 1 GHz).
TRCD, TRP, TCL, TRAS, BURST, CONTROLLER, TRRD, TWTR, TRTW, TWR, TRFC = 20, 20, 20, 40, 2, 60, 4, 10, 4, 20, 200
LINE = 8 * BURST  #: a line is 8 bursts of 16 bytes


class Channel:
    """The toy's DRAM, given requests directly; refresh is put off unless asked for."""

    def __init__(self, refresh: bool = False, **changes: float) -> None:
        profile = load_profile("toy").override({f"dram.{key}": value for key, value in changes.items()})
        self.cfg, self.mem = memory_config(profile), memory_state(profile)
        if not refresh:
            self.mem.channels[:, D_REFRESH] = 1 << 60

    def serve(self, *requests: tuple[int, int] | tuple[int, int, int]) -> list[float]:
        """Serve requests (cycle, line, write) together; the cycle of each one's last data, or acceptance if written."""
        for time, line, *write in requests:
            l2.request(self.mem.requests, self.mem.request_count, time * TICK, line, 15, int(bool(write)))
        dram.serve(self.mem, self.cfg)
        done = self.mem.requests[: len(requests), R_DONE] / TICK
        return [float(t) - (0 if len(r) == 3 else CONTROLLER) for t, r in zip(done, requests, strict=True)]

    def count(self, what: Mem) -> int:
        """A count."""
        return int(self.mem.counts[what])


def same_bank(channel: Channel, n: int) -> list[int]:
    """First lines of `n` rows of one bank of channel 0."""
    from sim.core.address_map import dram_place

    places = {line: dram_place(line, channel.cfg) for line in range(0, 4000, 4)}
    return [line for line, (ch, bank, _) in places.items() if ch == 0 and bank == 0][:n]


def other_banks(channel: Channel) -> list[int]:
    """A line of each bank of channel 0."""
    from sim.core.address_map import dram_place

    places = {line: dram_place(line, channel.cfg) for line in range(0, 4000, 4)}
    return [next(line for line, (ch, b, _) in places.items() if ch == 0 and b == bank) for bank in range(4)]


def test_closed_bank_activates_then_reads() -> None:
    assert Channel().serve((0, 0)) == [TRCD + TCL + LINE]


def test_open_row_reads_at_once() -> None:
    channel = Channel()
    assert channel.serve((0, 0), (1000, 1))[1] == 1000 + TCL + LINE
    assert channel.count(Mem.DRAM_ROW_HIT) == 8 + 7
    assert channel.count(Mem.DRAM_ROW_MISS) == 1


def test_other_row_closes_the_open_one_first() -> None:
    channel = Channel()
    first, second = same_bank(channel, 2)
    assert channel.serve((0, first), (1000, second))[1] == 1000 + TRP + TRCD + TCL + LINE
    assert channel.count(Mem.DRAM_ROW_CONFLICT) == 1


def test_a_row_stays_open_for_tras() -> None:
    channel = Channel(tras_ns=100.0)
    first, second = same_bank(channel, 2)
    assert channel.serve((0, first), (1, second))[1] == 100 + TRP + TRCD + TCL + LINE


def test_a_row_that_was_written_stays_open_for_twr() -> None:
    channel = Channel()
    first, second = same_bank(channel, 2)
    channel.serve((0, first, 1))  # no read: it leaves at once
    written = TRCD + TCL + LINE
    assert channel.serve((1, second)) == [written + TWR + TRP + TRCD + TCL + LINE]


def test_banks_share_the_bus() -> None:
    channel = Channel()
    lines = other_banks(channel)
    done = channel.serve(*((0, line) for line in lines))
    assert done == [TRCD + TCL + LINE * (k + 1) for k in range(4)], "activations overlap with data"


def test_activations_keep_their_distance() -> None:
    channel = Channel(trrd_ns=50.0)
    lines = other_banks(channel)
    done = channel.serve(*((0, line) for line in lines))
    assert done == [50 * k + TRCD + TCL + LINE for k in range(4)]


def test_four_activations_a_window() -> None:
    channel = Channel(tfaw_ns=200.0)
    lines = other_banks(channel)
    assert channel.serve(*((0, line) for line in lines))[3] == 3 * 50 + TRCD + TCL + LINE


def test_bursts_of_one_bank_group_keep_the_long_distance() -> None:
    assert Channel(tccd_long_ns=5.0, bank_groups=4).serve((0, 0)) == [TRCD + TCL + 7 * 5 + BURST]


def test_bank_groups_take_turns_on_the_bus() -> None:
    one, four = (Channel(tccd_long_ns=4.0, bank_groups=groups).cfg.burst / TICK for groups in (1, 4))
    assert (one, four) == (4, BURST)


def test_open_rows_go_before_older_requests() -> None:
    channel = Channel()
    first, second = same_bank(channel, 2)
    channel.serve((0, first))
    older, younger = channel.serve((1000, second), (1000, first + 1))
    assert younger < older


def test_older_requests_go_first_beyond_the_window() -> None:
    channel = Channel(read_queue_entries=1)
    first, second = same_bank(channel, 2)
    channel.serve((0, first))
    older, younger = channel.serve((1000, second), (1000, first + 1))
    assert older < younger


def test_a_request_that_comes_later_waits_for_nothing_that_was_not_there() -> None:
    channel = Channel()
    assert channel.serve((0, 0), (500, 1))[0] == TRCD + TCL + LINE


def test_turning_the_bus_round_idles_it() -> None:
    channel = Channel()
    channel.serve((0, 0), (0, 1))  # the row is open, the bus busy until:
    busy = TRCD + TCL + 2 * LINE
    channel.serve((1, 2, 1))
    written = busy + TRTW + LINE
    assert channel.serve((2, 3)) == [written + TWTR + TCL + LINE]
    assert channel.count(Mem.DRAM_TURNAROUNDS) == 2


def test_writes_wait_while_there_are_reads() -> None:
    channel = Channel()
    assert channel.serve((0, 0, 1), (0, 1))[1] == TRCD + TCL + LINE
    assert channel.count(Mem.DRAM_TURNAROUNDS) == 0


def test_a_full_queue_sends_half_of_its_writes() -> None:
    channel = Channel()  # 8 entries
    writes = [(0, line, 1) for line in other_banks(channel)[:1] * 9]
    channel.serve(*writes, (0, 1))
    assert channel.mem.channels[0, dram.D_WRITES] == 9 - 4
    assert channel.count(Mem.DRAM_TURNAROUNDS) == 2


def test_a_write_is_taken_when_the_queue_has_room() -> None:
    channel = Channel()
    accepted = channel.serve(*((0, 0, 1) for _ in range(9)), (0, 1))
    assert accepted[:8] == [0.0] * 8
    assert accepted[8] == TRCD + TCL + LINE, "when the first of the batch has left"


def test_an_idle_channel_writes_what_waits() -> None:
    channel = Channel()
    channel.serve((0, 0, 1))
    assert channel.mem.channels[0, dram.D_WRITES] == 0


def test_refresh_closes_rows_and_stops_the_channel() -> None:
    channel = Channel(refresh=True)
    channel.mem.channels[:, D_REFRESH] = 1000 * TICK
    channel.serve((0, 0))
    assert channel.serve((1000, 1)) == [1000 + TRP + TRFC + TRCD + TCL + LINE]
    assert channel.count(Mem.DRAM_REFRESHES) == 1
    assert channel.count(Mem.DRAM_ROW_MISS) == 2


def test_refreshes_of_idle_time_cost_nothing() -> None:
    channel = Channel(refresh=True)
    channel.mem.channels[:, D_REFRESH] = 1000 * TICK
    assert channel.serve((1000 + 5 * 4000 + 500, 0)) == [1000 + 5 * 4000 + 500 + TRCD + TCL + LINE]
    assert channel.count(Mem.DRAM_REFRESHES) == 6


def test_an_idle_stretch_serves_an_earlier_request_of_a_later_call() -> None:
    channel = Channel()
    first, second, *_ = other_banks(channel)
    channel.serve((0, first))
    channel.serve((1000, first + 1))
    assert channel.serve((500, second)) == [500 + TRCD + TCL + LINE]


@pytest.mark.parametrize(
    ("sectors", "sector_bursts", "burst_sectors", "bursts"),
    [(0b1111, 2, 1, 8), (0b0101, 1, 1, 2), (0b0101, 1, 2, 2), (0b0011, 1, 2, 1), (0b1000, 1, 4, 1)],
)
def test_bursts_of_sectors(sectors: int, sector_bursts: int, burst_sectors: int, bursts: int) -> None:
    assert dram.burst_count(sectors, sector_bursts, burst_sectors) == bursts


def test_requests_are_served_by_channel_and_time() -> None:
    profile = load_profile("toy")
    cfg, mem = memory_config(profile), memory_state(profile)
    rng = np.random.default_rng(0)
    times, lines = rng.integers(0, 1000, 100), rng.integers(0, 10_000, 100)
    mem.requests[:100, R_TIME], mem.requests[:100, R_LINE] = times, lines
    mem.requests[:100, R_SECTORS], mem.requests[:100, R_WRITE] = 15, 0
    dram.place_requests(mem.requests, 100, mem.by_channel, mem.channel_start, cfg)
    keys = [(mem.requests[r, dram.R_CHANNEL], times[r], r) for r in mem.by_channel[:100].tolist()]
    assert keys == sorted(keys)
