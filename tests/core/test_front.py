"""The front end: does a warp get the instructions it asked for, whatever other warps ask for?"""

from __future__ import annotations

import sim
from sim.profile import load_profile
from workloads import rows


def test_warps_that_share_a_place_in_the_instruction_cache_all_go_on() -> None:
    """Warps far apart in a kernel that is larger than L0 push each other's lines out before they come."""
    tiny = load_profile("toy").override({"icache.l0_bytes": 256, "icache.l1_bytes": 512, "icache.prefetch_lines": 0})
    launch = rows.softmax(8, 300, 128)
    report = sim.simulate(launch, gpu=tiny, cycle_limit=100_000)
    launch.check(report)


def test_a_larger_instruction_cache_waits_less() -> None:
    def waiting(l0_bytes: int) -> float:
        gpu = load_profile("toy").override({"icache.l0_bytes": l0_bytes})
        report = sim.simulate(rows.softmax(8, 300, 128), gpu=gpu)
        return report["smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio"]

    assert waiting(256) > waiting(4096)
