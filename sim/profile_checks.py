"""Cross-checks of a hardware profile: what several keys must satisfy together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sim.profile_keys import Sections


class Check(NamedTuple):
    """A condition on a profile; a broken one is reported at `key`'s line."""

    key: str
    holds: Callable[[Sections], bool]
    message: Callable[[Sections], str]


def _carveouts_fit(p: Sections) -> bool:
    return max(*p.occupancy.shared_carveouts_kib, p.l1.reserved_kib) < p.core.unified_l1_kib


CHECKS = (
    Check(
        "occupancy.max_threads_per_sm",
        lambda p: p.occupancy.max_threads_per_sm == p.occupancy.max_warps_per_sm * p.occupancy.warp_size,
        lambda p: (
            f"{p.occupancy.max_threads_per_sm} threads, but {p.occupancy.max_warps_per_sm} warps of "
            f"{p.occupancy.warp_size}: make them agree"
        ),
    ),
    Check(
        "occupancy.warp_size",
        lambda p: p.occupancy.warp_size == 32,
        lambda p: "a warp has 32 lanes in this instruction set",
    ),
    Check(
        "occupancy.max_warps_per_sm",
        lambda p: p.occupancy.max_warps_per_sm % p.core.subcores == 0,
        lambda p: f"{p.occupancy.max_warps_per_sm} warps do not divide over {p.core.subcores} sub-cores",
    ),
    Check(
        "occupancy.shared_per_sm_bytes",
        lambda p: p.occupancy.shared_per_sm_bytes == 1024 * max(p.occupancy.shared_carveouts_kib),
        lambda p: (
            f"{p.occupancy.shared_per_sm_bytes} bytes is not the largest carve-out, "
            f"{max(p.occupancy.shared_carveouts_kib)} KiB"
        ),
    ),
    Check(
        "occupancy.shared_per_block_optin_bytes",
        lambda p: (
            p.occupancy.shared_per_block_optin_bytes + p.occupancy.shared_reserved_bytes
            <= p.occupancy.shared_per_sm_bytes
        ),
        lambda p: (
            f"{p.occupancy.shared_per_block_optin_bytes} bytes and the reserved "
            f"{p.occupancy.shared_reserved_bytes} exceed an SM's {p.occupancy.shared_per_sm_bytes}"
        ),
    ),
    Check(
        "occupancy.shared_per_block_bytes",
        lambda p: p.occupancy.shared_per_block_bytes <= p.occupancy.shared_per_block_optin_bytes,
        lambda p: "more than a block may have with opt-in (shared_per_block_optin_bytes)",
    ),
    Check(
        "occupancy.shared_carveouts_kib",
        lambda p: list(p.occupancy.shared_carveouts_kib) == sorted(set(p.occupancy.shared_carveouts_kib)),
        lambda p: "carve-outs must ascend, each once",
    ),
    Check(
        "occupancy.shared_carveouts_kib",
        _carveouts_fit,
        lambda p: (
            f"carve-out {max(p.occupancy.shared_carveouts_kib)} KiB, or l1.reserved_kib {p.l1.reserved_kib}, "
            f"leaves no L1 in the unified array of {p.core.unified_l1_kib} KiB (core.unified_l1_kib)"
        ),
    ),
    Check(
        "occupancy.registers_per_block",
        lambda p: p.occupancy.registers_per_block <= p.occupancy.registers_per_sm,
        lambda p: f"more than the SM's {p.occupancy.registers_per_sm}",
    ),
    Check(
        "occupancy.max_threads_per_block",
        lambda p: p.occupancy.max_threads_per_block <= p.occupancy.max_threads_per_sm,
        lambda p: f"more than the SM's {p.occupancy.max_threads_per_sm}",
    ),
    Check(
        "l1.line_bytes",
        lambda p: p.l1.line_bytes % p.l1.sector_bytes == 0 and p.l2.line_bytes % p.l2.sector_bytes == 0,
        lambda p: "a line must be a whole number of sectors, in L1 and L2",
    ),
    Check(
        "l2.sector_bytes",
        lambda p: p.l2.sector_bytes == p.l1.sector_bytes and p.l2.line_bytes == p.l1.line_bytes,
        lambda p: "L1 and L2 exchange sectors of lines: sector_bytes and line_bytes must be the same in both",
    ),
    Check(
        "l2.bytes",
        lambda p: p.l2.bytes % (p.l2.line_bytes * p.l2.slices) == 0,
        lambda p: f"{p.l2.bytes} bytes is not a whole number of {p.l2.line_bytes}-byte lines in {p.l2.slices} slices",
    ),
    Check(
        "l2.slices",
        lambda p: p.l2.slices % p.l2.partitions == 0,
        lambda p: f"{p.l2.slices} slices do not divide over {p.l2.partitions} partitions",
    ),
    Check(
        "l2.partitions",
        lambda p: p.l2.partitions <= 2 and p.dram.channels % p.l2.partitions == 0,
        lambda p: (
            f"{p.l2.partitions} partitions with {p.dram.channels} DRAM channels: use 1 or 2, with as many channels each"
        ),
    ),
    Check(
        "l2.fetch_bytes",
        lambda p: p.l2.fetch_bytes in (p.l2.sector_bytes, 2 * p.l2.sector_bytes, p.l2.line_bytes),
        lambda p: f"{p.l2.fetch_bytes} bytes: a miss fetches one sector, two, or the line",
    ),
    Check(
        "l2.dirty_ways",
        lambda p: p.l2.partial_ways <= p.l2.dirty_ways <= p.l2.associativity,
        lambda p: (
            f"need l2.partial_ways ({p.l2.partial_ways}) <= l2.dirty_ways ({p.l2.dirty_ways}) <= "
            f"l2.associativity ({p.l2.associativity})"
        ),
    ),
    Check(
        "l2.bytes",
        lambda p: p.l2.bytes % (p.l2.line_bytes * p.l2.slices * p.l2.associativity) == 0,
        lambda p: f"{p.l2.bytes} bytes do not make whole sets of {p.l2.associativity} lines in {p.l2.slices} slices",
    ),
    Check(
        "dram.interleave_bytes",
        lambda p: p.dram.interleave_bytes % p.l2.line_bytes == 0 and p.dram.row_bytes % p.dram.interleave_bytes == 0,
        lambda p: (
            f"{p.dram.interleave_bytes} bytes: give whole lines ({p.l2.line_bytes} bytes) that divide a row "
            f"({p.dram.row_bytes} bytes)"
        ),
    ),
    Check(
        "dram.burst_bytes",
        lambda p: p.l2.sector_bytes % p.dram.burst_bytes == 0 or p.dram.burst_bytes % p.l2.sector_bytes == 0,
        lambda p: (
            f"bursts of {p.dram.burst_bytes} bytes and sectors of {p.l2.sector_bytes}: "
            "one must be a multiple of the other"
        ),
    ),
    Check(
        "dram.row_bytes",
        lambda p: p.dram.row_bytes % p.dram.burst_bytes == 0,
        lambda p: f"a row must be a whole number of {p.dram.burst_bytes}-byte bursts",
    ),
    Check(
        "dram.banks",
        lambda p: p.dram.banks % p.dram.bank_groups == 0,
        lambda p: f"{p.dram.banks} banks do not divide over {p.dram.bank_groups} bank groups",
    ),
    Check(
        "dram.tras_ns",
        lambda p: p.dram.tras_ns >= p.dram.trcd_ns,
        lambda p: "a row must stay open (tras_ns) at least until it can be read (trcd_ns)",
    ),
    Check(
        "dram.trefi_ns",
        lambda p: p.dram.trefi_ns > p.dram.trfc_ns,
        lambda p: "refreshes (trfc_ns) would take all the time between them",
    ),
)
