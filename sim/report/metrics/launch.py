"""Launch and occupancy: the size of the grid, what a block takes, and how many fit on an SM."""

from __future__ import annotations

from sim.counters import Sm
from sim.report.counts import Counts
from sim.report.metric import in_section, percent, ratio

_l = in_section("LaunchStats")
_o = in_section("Occupancy")


def block_starts(c: Counts) -> float:
    """Cycles that starting the blocks takes, the first wave on empty SMs, in percent of the elapsed ones."""
    first = min(c.blocks, c.waves.blocks_per_wave)
    rates = c.profile.launch
    return percent(first / rates.fill_blocks_per_cycle + (c.blocks - first) / rates.blocks_per_cycle, c.elapsed)


METRICS = (
    _l("launch__grid_size", "Grid Size", "block", lambda c: c.blocks, "Blocks launched."),
    _l("launch__registers_per_thread", "Registers Per Thread", "register/thread",
       lambda c: c.result.program.registers_per_thread, "Registers that a launch gives each thread."),
    _l("launch__registers_per_thread_allocated", "Registers Per Thread Allocated", "register/thread",
       lambda c: c.occupancy.registers_per_thread, "Registers a thread takes from the SM, rounded up."),
    _l("launch__shared_mem_per_block_static", "Static Shared Memory Per Block", "byte",
       lambda c: c.result.program.shared_static_bytes, "Shared memory that the program declares."),
    _l("launch__block_size", "Block Size", "thread", lambda c: c.threads_per_block, "Threads in a block."),
    _l("launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block", "byte",
       lambda c: c.result.shared_dynamic_bytes, "Shared memory asked for at launch."),
    _l("launch__thread_count", "Threads", "thread", lambda c: c.blocks * c.threads_per_block, "Threads launched."),
    _l("launch__shared_mem_per_block_driver", "Driver Shared Memory Per Block", "byte",
       lambda c: c.profile.occupancy.shared_reserved_bytes, "Shared memory that the system takes of each block."),
    _l("launch__shared_mem_per_block", "Shared Memory Per Block", "byte",
       lambda c: c.result.program.shared_static_bytes + c.result.shared_dynamic_bytes
       + c.profile.occupancy.shared_reserved_bytes, "Static, dynamic and driver shared memory."),
    _l("launch__shared_mem_per_block_allocated", "Shared Memory Per Block Allocated", "byte",
       lambda c: c.occupancy.shared_per_block_bytes, "Shared memory a block takes from the SM, rounded up."),
    _l("launch__shared_mem_config_size", "Shared Memory Configuration Size", "byte",
       lambda c: c.occupancy.shared_carveout_bytes, "Shared memory's part of the unified L1 array."),
    _l("launch__waves_per_multiprocessor", "Waves Per SM", "", lambda c: c.waves.per_sm,
       "Blocks over the blocks that the GPU holds at once."),
    _l("launch__sm_count", "# SMs", "SM", lambda c: c.profile.gpu.sm_count, "SMs of the GPU."),
    _l("tailwave__block_starts.pct", "Block Start Rate", "%", block_starts,
       "Time that the block scheduler needs to start the blocks, in percent of the elapsed time."),
    _l("tailwave__sampled_blocks.sum", "Executed Blocks", "block", lambda c: c.executed_blocks,
       "Blocks that were executed: all, unless the launch was sampled."),
    _l("tailwave__sampled_blocks.pct", "Executed Blocks", "%", lambda c: percent(c.executed_blocks, c.blocks),
       "Blocks that were executed, in percent of the grid; below 100 the launch was sampled."),
    _l("tailwave__sampled_block_time_spread.pct", "Block Time Spread", "%", lambda c: 100.0 * c.block_time_spread,
       "Standard deviation of the executed blocks' times, in percent of their mean."),
    _o("sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy", "%",
       lambda c: percent(c.occupancy.warps_per_sm, c.profile.occupancy.max_warps_per_sm),
       "Warps that this launch can have resident on an SM, in percent of the most."),
    _o("sm__maximum_warps_avg_per_active_cycle", "Theoretical Active Warps per SM", "warp",
       lambda c: c.occupancy.warps_per_sm, "Warps that this launch can have resident on an SM."),
    _o("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy", "%",
       lambda c: percent(c.warp_cycles, c.active * c.profile.occupancy.max_warps_per_sm),
       "Resident warps in percent of the most, mean over active cycles."),
    _o("sm__warps_active.avg.per_cycle_active", "Achieved Active Warps Per SM", "warp",
       lambda c: ratio(c.sm(Sm.WARPS), c.active), "Resident warps of an SM, mean over active cycles."),
    _o("launch__occupancy_limit_blocks", "Block Limit SM", "block", lambda c: c.occupancy.limit_blocks,
       "Blocks an SM has places for."),
    _o("launch__occupancy_limit_registers", "Block Limit Registers", "block",
       lambda c: c.occupancy.limit_registers, "Blocks that an SM's registers suffice for."),
    _o("launch__occupancy_limit_shared_mem", "Block Limit Shared Mem", "block",
       lambda c: c.occupancy.limit_shared_in_config, "Blocks that the configured shared memory suffices for."),
    _o("tailwave__occupancy_limit_shared_mem_largest", "Block Limit Shared Mem, Largest", "block",
       lambda c: c.occupancy.limit_shared, "Blocks that an SM's largest shared-memory configuration suffices for."),
    _o("launch__occupancy_limit_warps", "Block Limit Warps", "block", lambda c: c.occupancy.limit_warps,
       "Blocks that an SM's warp slots suffice for."),
    _o("launch__cluster_size", "Cluster Size", "block", lambda c: c.occupancy.blocks_per_cluster,
       "Blocks of a cluster."),
    _o("launch__cluster_max_active", "Max Active Clusters", "", lambda c: c.occupancy.active_clusters,
       "Clusters that the GPU holds at once; 0 without clusters."),
    _o("tailwave__blocks_per_sm", "Blocks Per SM", "block", lambda c: c.occupancy.blocks_per_sm,
       "Blocks of this launch that fit on an SM: the least of the limits."),
)  # fmt: skip
