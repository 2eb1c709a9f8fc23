"""The page: Nsight's sections in its order, the figures in each, and our own after them.

Rows come in pairs, left and right, as on Nsight's details page.
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.counters import Stall
from sim.report.metrics.compute import CYCLE_PIPES, INSTRUCTION_PIPES
from sim.report.metrics.speed import ACTIVE, ELAPSED
from sim.report.stalls import ratio_name


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of metrics: a name a cell, or "" for an empty one."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One section: its Nsight key, title, metrics shown as label and value, and tables."""

    key: str
    title: str
    rows: tuple[str, ...]
    grids: tuple[Grid, ...] = ()


def _pipes() -> Grid:
    rows = []
    for pipe, label in INSTRUCTION_PIPES.items():
        busy = f"sm__pipe_{pipe}_cycles_active{{}}" if pipe in CYCLE_PIPES else f"sm__inst_executed_pipe_{pipe}{{}}"
        cells = (f"sm__inst_executed_pipe_{pipe}.sum", busy.format(ELAPSED), busy.format(ACTIVE))
        rows.append((label, cells))
    return Grid("Pipes", ("Instructions", "% of elapsed", "% of active"), tuple(rows))


def _shared() -> Grid:
    def row(label: str, instructions: str, name: str) -> tuple[str, tuple[str, ...]]:
        root = "l1tex__data_{}_pipe_lsu_" + name + ".sum"
        wavefronts = f"l1tex__data_pipe_lsu_wavefronts_{name}.sum"
        return label, (f"smsp__inst_executed_op_{instructions}.sum", wavefronts, root.format("bank_conflicts"))

    return Grid(
        "Shared Memory",
        ("Instructions", "Wavefronts", "Bank Conflicts"),
        (
            row("Shared Load", "shared_ld", "mem_shared_op_ld"),
            row("Shared Store", "shared_st", "mem_shared_op_st"),
            row("Shared Atomic", "shared_atom", "mem_shared_op_atom"),
            ("Matrix Load (in Load)", ("smsp__inst_executed_op_ldsm.sum", "", "")),
            ("Total", ("smsp__sass_inst_executed_op_shared.sum", *row("", "", "mem_shared")[1][1:])),
        ),
    )


def _l1() -> Grid:
    kinds = (
        ("Global Load", "global_ld", "mem_global_op_ld"),
        ("Global Store", "global_st", "mem_global_op_st"),
        ("Global Atomic", "global_atom", "mem_global_op_atom"),
        ("Global Reduction", "global_red", "mem_global_op_red"),
        ("Global To Shared", "ldgsts", "mem_global_op_ldgsts"),
        ("Local Load", "local_ld", "mem_local_op_ld"),
        ("Local Store", "local_st", "mem_local_op_st"),
    )
    rows = [
        (label, (
            f"smsp__inst_executed_op_{inst}.sum",
            f"l1tex__t_requests_pipe_lsu_{name}.sum",
            f"l1tex__t_sectors_pipe_lsu_{name}.sum",
            f"l1tex__average_t_sectors_per_request_pipe_lsu_{name}.ratio",
            f"tailwave__ideal_sectors_{name}.sum",
            f"l1tex__t_sector_pipe_lsu_{name}_hit_rate.pct",
        ))
        for label, inst, name in kinds
    ]  # fmt: skip
    total = ("", "l1tex__t_requests.sum", "l1tex__t_sectors.sum", "", "", "l1tex__t_sector_hit_rate.pct")
    columns = ("Instructions", "Requests", "Sectors", "Sectors/Req", "Ideal Sectors", "Hit Rate")
    return Grid("L1/TEX Cache", columns, (*rows, ("Total", total)))


def _l2() -> Grid:
    return Grid(
        "L2 Cache",
        ("Sectors", "Hit", "Hit Rate"),
        (
            ("Reads", ("lts__t_sectors_op_read.sum", "lts__t_sectors_op_read_lookup_hit.sum",
                       "lts__t_sector_op_read_hit_rate.pct")),
            ("Writes", ("lts__t_sectors_op_write.sum", "lts__t_sectors_op_write_lookup_hit.sum",
                        "lts__t_sector_op_write_hit_rate.pct")),
            ("Atomics", ("lts__t_sectors_op_atom.sum", "", "")),
            ("Reductions", ("lts__t_sectors_op_red.sum", "", "")),
            ("Total", ("lts__t_sectors.sum", "", "lts__t_sector_hit_rate.pct")),
            ("From L1/TEX", ("lts__t_sectors_srcunit_tex.sum", "lts__t_sectors_srcunit_tex_lookup_hit.sum", "")),
            ("Crossed Partitions", ("tailwave__lts_sectors_crossed.sum", "", "")),
        ),
    )  # fmt: skip


def _dram() -> Grid:
    def row(label: str, way: str) -> tuple[str, tuple[str, ...]]:
        root = f"dram__bytes_{way}"
        return label, (
            f"dram__sectors_{way}.sum",
            f"tailwave__dram_bursts_{way}.sum",
            f"{root}.sum",
            f"{root}.sum.per_second",
            f"{root}{ELAPSED}",
        )

    columns = ("Sectors", "Bursts", "Bytes", "Throughput", "% Peak")
    total = ("", "", "dram__bytes.sum", "dram__bytes.sum.per_second", f"dram__bytes{ELAPSED}")
    return Grid("Device Memory", columns, (row("Load", "read"), row("Store", "write"), ("Total", total)))


PAGE: tuple[Section, ...] = (
    Section(
        "SpeedOfLight",
        "GPU Speed Of Light Throughput",
        (
            f"sm__throughput{ELAPSED}", "gpu__time_duration.sum",
            f"gpu__compute_memory_throughput{ELAPSED}", "gpc__cycles_elapsed.max",
            f"l1tex__throughput{ACTIVE}", "sm__cycles_active.avg",
            f"lts__throughput{ELAPSED}", "gpc__cycles_elapsed.avg.per_second",
            f"gpu__dram_throughput{ELAPSED}", "tailwave__launch_cycles.max",
        ),
    ),
    Section(
        "ComputeWorkloadAnalysis",
        "Compute Workload Analysis",
        (
            "sm__inst_executed.avg.per_cycle_elapsed", f"sm__instruction_throughput{ELAPSED}",
            "sm__inst_executed.avg.per_cycle_active", f"sm__inst_issued{ELAPSED}",
            "sm__inst_issued.avg.per_cycle_active", "sm__inst_issued.max.pct_of_peak_sustained_elapsed",
        ),
        (_pipes(),),
    ),
    Section(
        "MemoryWorkloadAnalysis",
        "Memory Workload Analysis",
        (
            "dram__bytes.sum.per_second", f"gpu__compute_memory_access_throughput{ELAPSED}",
            "l1tex__t_sector_hit_rate.pct", f"gpu__compute_memory_request_throughput{ELAPSED}",
            "lts__t_sector_hit_rate.pct", f"sm__memory_throughput{ELAPSED}",
        ),
        (_shared(), _l1(), _l2(), _dram()),
    ),
    Section(
        "SchedulerStats",
        "Scheduler Statistics",
        (
            "smsp__warps_active.avg.peak_sustained", f"smsp__issue_inst0{ACTIVE}",
            "smsp__maximum_warps_avg_per_active_cycle", f"smsp__issue_active{ACTIVE}",
            "smsp__warps_active.avg.per_cycle_active", "smsp__issue_active.avg.per_cycle_active",
            "smsp__warps_eligible.avg.per_cycle_active",
        ),
    ),
    Section(
        "WarpStateStats",
        "Warp State Statistics",
        (
            "smsp__average_warp_latency_per_inst_issued.ratio",
            "smsp__thread_inst_executed_per_inst_executed.ratio",
            "smsp__average_warps_active_per_inst_executed.ratio",
            "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
        ),
    ),
    Section(
        "InstructionStats",
        "Instruction Statistics",
        (
            "smsp__inst_executed.sum", "smsp__inst_executed.avg",
            "smsp__inst_issued.sum", "smsp__inst_issued.avg",
        ),
    ),
    Section(
        "LaunchStats",
        "Launch Statistics",
        (
            "launch__grid_size", "launch__registers_per_thread",
            "launch__block_size", "launch__shared_mem_per_block_static",
            "launch__thread_count", "launch__shared_mem_per_block_dynamic",
            "launch__waves_per_multiprocessor", "launch__shared_mem_per_block_driver",
            "launch__sm_count", "launch__shared_mem_config_size",
        ),
    ),
    Section(
        "Occupancy",
        "Occupancy",
        (
            "sm__maximum_warps_per_active_cycle_pct", "launch__occupancy_limit_registers",
            "sm__maximum_warps_avg_per_active_cycle", "launch__occupancy_limit_shared_mem",
            "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__occupancy_limit_warps",
            "sm__warps_active.avg.per_cycle_active", "launch__occupancy_limit_blocks",
        ),
    ),
    Section(
        "SourceCounters",
        "Source Counters",
        (
            "smsp__inst_executed_op_branch.sum", "smsp__sass_average_branch_targets_threads_uniform.pct",
            "derived__smsp__inst_executed_op_branch_pct", "smsp__branch_targets_threads_divergent",
        ),
    ),
    Section(
        "WorkloadDistribution",
        "GPU and Memory Workload Distribution",
        (
            "sm__cycles_active.avg", "sm__cycles_elapsed.sum",
            "sm__cycles_active.min", "sm__cycles_active.max",
            "lts__cycles_active.avg", "lts__cycles_elapsed.sum",
            "dram__cycles_active.avg", "dram__cycles_elapsed.sum",
        ),
    ),
    Section(
        "Tail",
        "Waves and Tail",
        (
            "tailwave__waves", "tailwave__tail_utilization.pct",
            "tailwave__full_waves", "tailwave__wave_efficiency.pct",
            "tailwave__blocks_per_wave", "tailwave__last_wave_cycles.max",
            "tailwave__last_wave_blocks", "tailwave__tail_cycles.avg",
            "tailwave__idle_after_last_block.sum", "tailwave__tail_cycles.pct",
        ),
    ),
    Section(
        "Dram",
        "DRAM Rows and Bursts",
        (
            "tailwave__dram_row_hit_rate.pct", "tailwave__dram_turnarounds.sum",
            "tailwave__dram_row_hits.sum", "tailwave__dram_refreshes.sum",
            "tailwave__dram_row_misses.sum", "tailwave__dram_bytes_asked.sum",
            "tailwave__dram_row_conflicts.sum", "tailwave__dram_useful_bytes.pct",
        ),
    ),
)  # fmt: skip

#: Titles of all sections, those without a page entry of their own among them.
TITLES = {section.key: section.title for section in PAGE} | {
    "MemoryWorkloadAnalysis_Tables": "Memory Workload Analysis Tables"
}

#: The stall reasons' bars in the warp state section, by reason.
STALL_RATIOS = {reason: ratio_name(reason) for reason in Stall}
