"""Waves against the known cases, and the tail's cost from block times."""

import numpy as np
import pytest

from sim.report.tail import Waves, measure_tail

#: Problem size m, n, tile rows, tile columns, SMs, then tiles, waves an SM, whole waves, wave efficiency (cuBLAS-like
#: tiles, one block an SM).
WAVE_CASES = [
    (256, 256, 128, 128, 108, 4, 0.037, 1, 0.037),
    (256, 257, 128, 128, 108, 6, 0.056, 1, 0.056),
    (1792, 1792, 256, 128, 108, 98, 0.907, 1, 0.907),
    (1793, 1793, 256, 128, 108, 120, 1.111, 2, 0.556),
    (2304, 1536, 256, 128, 108, 108, 1.0, 1, 1.0),
    (2304, 1537, 256, 128, 108, 117, 1.083, 2, 0.542),
    (2304, 3072, 256, 128, 108, 216, 2.0, 2, 1.0),
    (2304, 3073, 256, 128, 108, 225, 2.083, 3, 0.694),
    (4096, 4096, 256, 128, 108, 512, 4.741, 5, 0.948),
    (8192, 8192, 256, 128, 108, 2048, 18.963, 19, 0.998),
    (4096, 4096, 128, 256, 132, 512, 3.879, 4, 0.97),
    (8192, 8192, 128, 256, 132, 2048, 15.515, 16, 0.97),
    (2048, 2048, 128, 128, 132, 256, 1.939, 2, 0.97),
]


@pytest.mark.parametrize(("m", "n", "rows", "columns", "sms", "tiles", "per_sm", "count", "efficiency"), WAVE_CASES)
def test_tile_grids_fill_the_known_number_of_waves(m, n, rows, columns, sms, tiles, per_sm, count, efficiency):
    waves = Waves(-(-m // rows) * -(-n // columns), sms)
    assert waves.blocks == tiles
    assert round(waves.per_sm, 3) == per_sm
    assert waves.count == count
    assert round(waves.efficiency, 3) == efficiency


def test_just_past_one_wave_leaves_twelve_blocks_for_the_second():
    waves = Waves(120, 108)
    assert (waves.full, waves.last_blocks, waves.last_utilization) == (1, 12, 12 / 108)


def test_a_whole_last_wave_is_full():
    waves = Waves(216, 108)
    assert (waves.full, waves.last_blocks, waves.last_utilization) == (2, 108, 1.0)


def test_less_than_a_wave_is_a_partial_last_wave():
    waves = Waves(98, 108)
    assert (waves.full, waves.count, waves.last_blocks) == (0, 1, 98)


def two_waves():
    """5 blocks of 100 cycles on 4 SMs, one at a time: the fifth runs alone."""
    return np.array([(0, 10, 110), (1, 10, 110), (2, 10, 110), (3, 10, 110), (2, 110, 210)], np.int64)


def test_idle_cycles_count_from_each_sms_last_block():
    assert measure_tail(two_waves(), 4, Waves(5, 4)).idle_sm_cycles == 3 * 100


def test_the_last_wave_begins_with_its_first_block():
    assert measure_tail(two_waves(), 4, Waves(5, 4)).last_wave_cycles == 100


def test_lost_cycles_are_spread_over_all_sms():
    tail = measure_tail(two_waves(), 4, Waves(5, 4))
    assert (tail.lost_cycles, tail.lost_fraction) == (75.0, 75 / 200)


def test_an_sm_without_blocks_is_idle_the_whole_time():
    blocks = np.array([(0, 10, 110)], np.int64)
    assert measure_tail(blocks, 4, Waves(1, 4)).idle_sm_cycles == 3 * 100


def test_the_order_of_the_rows_does_not_matter():
    blocks, waves = two_waves(), Waves(5, 4)
    assert measure_tail(blocks[::-1], 4, waves) == measure_tail(blocks, 4, waves)


def test_no_blocks_cost_nothing():
    tail = measure_tail(np.zeros((0, 3), np.int64), 4, Waves(1, 4))
    assert (tail.span_cycles, tail.idle_sm_cycles, tail.lost_fraction) == (0, 0, 0.0)
