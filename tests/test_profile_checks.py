"""Profiles that the core has no room for, or cannot do otherwise, are refused by key."""

from __future__ import annotations

from typing import Any

import pytest

from sim.profile import ProfileError, load_profile


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"occupancy.warp_size": 16}, "occupancy.warp_size: a warp has 32 lanes"),
        ({"shared.banks": 16}, "shared.banks: shared memory has 32 banks"),
        ({"shared.bank_bytes": 8}, "shared.bank_bytes: a bank"),
        ({"l1.line_bytes": 256, "l2.line_bytes": 256}, "l1.line_bytes: a line is 128 bytes"),
        ({"l1.sector_bytes": 64, "l2.sector_bytes": 64}, "l1.sector_bytes: a sector is 32 bytes"),
        ({"gpu.sm_count": 257}, "gpu.sm_count: the core has room for 256"),
        ({"core.subcores": 8}, "core.subcores: the core has room for 4"),
        ({"occupancy.max_warps_per_sm": 128, "occupancy.max_threads_per_sm": 4096}, "room for 64 at most"),
        ({"occupancy.max_blocks_per_sm": 33}, "occupancy.max_blocks_per_sm: the core has room for 32"),
        ({"lsu.max_outstanding_requests": 1025}, "lsu.max_outstanding_requests: the core has room for 1024"),
        ({"lsu.queue_entries": 17}, "lsu.queue_entries: the core has room for 16"),
        ({"core.unified_l1_kib": 257}, "core.unified_l1_kib: leaves an L1 of 2056 lines"),
        ({"icache.line_bytes": 96}, "icache.line_bytes: 96 bytes: give a power of two"),
        ({"icache.line_bytes": 8}, "icache.line_bytes: 8 bytes: give a power of two that holds an instruction"),
        ({"icache.l0_bytes": 129 * 1024}, "more than the 1024 lines"),
        ({"constant.line_bytes": 16}, "constant.line_bytes: 16 bytes: the core has room for 256 lines"),
    ],
)
def test_what_the_core_cannot_hold_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        load_profile("toy").override(changes)


def test_the_largest_that_the_core_holds_is_taken() -> None:
    largest = {"core.unified_l1_kib": 256, "lsu.queue_entries": 16, "occupancy.max_blocks_per_sm": 32}
    assert load_profile("toy").override(largest).lsu.queue_entries == 16
