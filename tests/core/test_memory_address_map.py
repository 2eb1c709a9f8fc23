"""Address maps: one place a line, and even use of slices, sets, channels and banks by any stride."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.address_map import dram_place, home_partition, l2_set, line_number, partition_line, quotient
from sim.core.layout import GLOBAL_BASE
from sim.memory_system import memory_config
from sim.profile import load_profile
from tests.silicon.microbench import rows

GPUS = ["h200", "a100_sxm_40gb", "v100_sxm2", "toy"]
STRIDES = [1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 1000, 1024, 4096]


def configuration(gpu: str):  # type: ignore[no-untyped-def]
    """A profile's memory configuration."""
    return memory_config(load_profile(gpu))


@given(st.integers(0, 2**34), st.integers(1, 5000))
@settings(max_examples=300, deadline=None)
def test_quotient_is_the_quotient(x: int, n: int) -> None:
    assert quotient(x, 1 / n) == x // n


def test_windows_of_addresses_do_not_meet() -> None:
    """Global memory and whatever else a core may fetch from elsewhere, half a tebibyte apart."""
    windows = [GLOBAL_BASE - (k << 39) for k in range(4)]
    assert len({line_number(base >> 7) for base in windows}) == 4
    assert all(line_number((base >> 7) + 12345) == line_number(base >> 7) + 12345 for base in windows)


@pytest.mark.parametrize("gpu", GPUS)
def test_every_line_has_its_own_place_in_dram(gpu: str) -> None:
    cfg = configuration(gpu)
    pieces = Counter(
        (home_partition(line, cfg.partitions), *dram_place(partition_line(line, cfg.partitions), cfg))
        for line in range(8192)
    )
    lines_a_piece = load_profile(gpu).dram.interleave_bytes // 128
    assert set(pieces.values()) == {lines_a_piece}


@pytest.mark.parametrize("gpu", GPUS)
def test_an_array_as_large_as_the_l2_fills_every_set_alike(gpu: str) -> None:
    cfg = configuration(gpu)
    lines = cfg.partitions * cfg.slices * cfg.sets  # one way's worth
    used = Counter((home_partition(line, cfg.partitions), l2_set(line, cfg)) for line in range(lines))
    assert max(used.values()) - min(used.values()) <= 1
    assert len(used) == lines


def spread(counts: Counter[int], n: int, total: int) -> float:
    """How much more than an even share the busiest of `n` gets."""
    return max(counts.values()) * n / total


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("stride", STRIDES)
def test_strides_use_partitions_slices_and_channels_evenly(gpu: str, stride: int) -> None:
    cfg = configuration(gpu)
    lines = (np.arange(6144) * stride).tolist()
    homes = [home_partition(line, cfg.partitions) for line in lines]
    slices = Counter(h * cfg.slices + l2_set(line, cfg) // cfg.sets for h, line in zip(homes, lines, strict=True))
    channels = Counter(
        h * cfg.channels + dram_place(partition_line(line, cfg.partitions), cfg)[0]
        for h, line in zip(homes, lines, strict=True)
    )
    assert spread(Counter(homes), cfg.partitions, len(lines)) < 1.1
    assert spread(slices, cfg.partitions * cfg.slices, len(lines)) < 1.7
    assert spread(channels, cfg.partitions * cfg.channels, len(lines)) < 2.0


@pytest.mark.parametrize("stride", STRIDES)
def test_strides_use_banks_evenly(stride: int) -> None:
    cfg = configuration("h200")
    banks = Counter(dram_place(line * stride, cfg)[1] for line in range(20_000))
    assert spread(banks, cfg.banks, 20_000) < 1.6


def fewest(pitch: int, lines: int) -> float:
    """The least look-ups of a slice, over the mean, where one SM stores to lines so many bytes apart."""
    cfg = configuration("h200")
    counts = np.zeros((2, cfg.slices), int)
    for k in range(lines):
        line = line_number(((1 << 25) + k * pitch) >> 7)
        place, home = quotient(l2_set(line, cfg), cfg.inverse_sets), home_partition(line, cfg.partitions)
        counts[0, place] += 1
        counts[1, place] += home
    return float(counts.min() / counts.mean())


@pytest.mark.parametrize("pitches", [(128, 512, 1024), (4096, 8192, 16384, 32768, 65536)])
def test_slices_share_lines_as_unevenly_as_the_cards(pitches: tuple[int, ...]) -> None:
    """microbench_25: 4,224 lines that lie together or near fall evenly on slices, those 4 to 64 KiB apart do not."""
    card = {r["pitch"]: r["least"] * r["slices"] / r["written"] for r in rows(25, rows=4224, lines=1)}
    ours, theirs = (np.mean([share(p) for p in pitches]) for share in (lambda p: fewest(p, 4224), card.__getitem__))
    assert ours == pytest.approx(theirs, rel=0.1)
