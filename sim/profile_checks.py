"""Cross-checks of a hardware profile: what several keys must satisfy together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sim import limits
from sim.isa import INSTRUCTION_BYTES
from sim.profile_keys import Sections
from sim.program_checks import PARAM_BANK_BYTES


class Check(NamedTuple):
    """A condition on a profile; a broken one is reported at `key`'s line."""

    key: str
    holds: Callable[[Sections], bool]
    message: Callable[[Sections], str]


def _carveouts_fit(p: Sections) -> bool:
    return max(p.occupancy.shared_carveouts_kib) + p.l1.reserved_kib < p.core.unified_l1_kib


def _value(p: Sections, key: str) -> int:
    section, name = key.split(".")
    return int(getattr(getattr(p, section), name))


def _fixed(key: str, value: int, why: str) -> Check:
    """A key that the core cannot have otherwise."""
    return Check(key, lambda p: _value(p, key) == value, lambda p: why)


def _at_most(key: str, most: int) -> Check:
    """A key that the core's arrays limit."""
    return Check(key, lambda p: _value(p, key) <= most, lambda p: f"the core has room for {most} at most")


def _l1_lines(p: Sections) -> int:
    """Lines of the unified array, each of which L1 has a tag for."""
    return p.core.unified_l1_kib * 1024 // p.l1.line_bytes


CHECKS = (
    Check(
        "occupancy.max_threads_per_sm",
        lambda p: p.occupancy.max_threads_per_sm == p.occupancy.max_warps_per_sm * p.occupancy.warp_size,
        lambda p: (
            f"{p.occupancy.max_threads_per_sm} threads, but {p.occupancy.max_warps_per_sm} warps of "
            f"{p.occupancy.warp_size}: make them agree"
        ),
    ),
    _fixed("occupancy.warp_size", 32, "a warp has 32 lanes in this instruction set"),
    _fixed("shared.banks", 32, "shared memory has 32 banks in the core"),
    _fixed("shared.bank_bytes", 4, "a bank of shared memory is a word wide in the core"),
    _fixed("l1.line_bytes", 128, "a line is 128 bytes in the core"),
    _fixed("l1.sector_bytes", 32, "a sector is 32 bytes in the core"),
    _at_most("gpu.sm_count", limits.MAX_SMS),
    _at_most("core.subcores", limits.MAX_SUBCORES),
    _at_most("occupancy.max_warps_per_sm", limits.MAX_WARPS),
    _at_most("occupancy.max_blocks_per_sm", limits.MAX_SLOTS),
    _at_most("occupancy.shared_per_sm_bytes", limits.MAX_SHARED_BYTES),
    _at_most("lsu.max_outstanding_requests", limits.MAX_ENTRIES),
    _at_most("lsu.queue_entries", limits.MAX_QUEUE),
    Check(
        "wgmma.queue_entries",
        lambda p: p.wgmma is None or p.wgmma.queue_entries <= limits.MAX_PRODUCTS,
        lambda p: f"the core has room for {limits.MAX_PRODUCTS} products",
    ),
    Check(
        "cluster.max_blocks",
        lambda p: p.cluster is None or p.cluster.max_blocks <= limits.MAX_CLUSTER,
        lambda p: f"the core has room for {limits.MAX_CLUSTER} blocks",
    ),
    Check(
        "core.unified_l1_kib",
        lambda p: _l1_lines(p) <= limits.MAX_L1_LINES,
        lambda p: f"leaves an L1 of {_l1_lines(p)} lines; the core has room for {limits.MAX_L1_LINES}",
    ),
    Check(
        "icache.line_bytes",
        lambda p: p.icache.line_bytes >= INSTRUCTION_BYTES and p.icache.line_bytes.bit_count() == 1,
        lambda p: f"{p.icache.line_bytes} bytes: give a power of two that holds an instruction ({INSTRUCTION_BYTES})",
    ),
    Check(
        "icache.l1_bytes",
        lambda p: max(p.icache.l0_bytes, p.icache.l1_bytes) <= limits.MAX_CODE_LINES * p.icache.line_bytes,
        lambda p: f"more than the {limits.MAX_CODE_LINES} lines that the core has room for, in L0 or L1",
    ),
    Check(
        "constant.line_bytes",
        lambda p: PARAM_BANK_BYTES <= limits.MAX_CONSTANT_LINES * p.constant.line_bytes,
        lambda p: f"{p.constant.line_bytes} bytes: the core has room for {limits.MAX_CONSTANT_LINES} lines of bank 0",
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
            f"carve-out {max(p.occupancy.shared_carveouts_kib)} KiB, with l1.reserved_kib {p.l1.reserved_kib}, "
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
        "l2.gpc_partitions",
        lambda p: p.l2.partitions == 1 or max(p.l2.gpc_partitions or [0]) < p.l2.partitions,
        lambda p: f"partition {max(p.l2.gpc_partitions or [0])} of {p.l2.partitions}: they are numbered from 0",
    ),
    Check(
        "l2.fetch_bytes",
        lambda p: p.l2.fetch_bytes in (p.l2.sector_bytes, 2 * p.l2.sector_bytes, p.l2.line_bytes),
        lambda p: f"{p.l2.fetch_bytes} bytes: a miss fetches one sector, two, or the line",
    ),
    Check(
        "l2.dirty_ways",
        lambda p: p.l2.dirty_ways < p.l2.associativity,
        lambda p: f"need l2.dirty_ways ({p.l2.dirty_ways}) < l2.associativity ({p.l2.associativity})",
    ),
    Check(
        "l2.dirty_lines",
        lambda p: p.l2.partial_lines <= p.l2.dirty_lines <= p.l2.associativity,
        lambda p: (
            f"need l2.partial_lines ({p.l2.partial_lines:g}) <= l2.dirty_lines ({p.l2.dirty_lines:g}) <= "
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
