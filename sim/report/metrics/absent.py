"""Nsight metrics that the model cannot give, and why: for a helpful error and for the docs."""

from __future__ import annotations

from fnmatch import fnmatchcase

#: Name pattern -> reason. The first match counts.
ABSENT: dict[str, str] = {
    "*_not_issued": "stall reasons are counted in every cycle, not apart for cycles without an issue",
    "group:*": "a group of metrics, not a metric",
    "breakdown:*": "use Report.breakdown(name)",
    "sass__inst_executed_per_opcode*": "one value an opcode: use Report.opcodes()",
    "*_explicit_*": "the model has no cache eviction policies",
    "*tmem*": "the model has no tensor memory",
    "*mem_tensor*": "the model has no tensor memory",
    "*pipe_tma*": "the model has no tensor memory accelerator",
    "*_tma_*": "the model has no tensor memory accelerator",
    "*pipe_tc*": "the model has no separate TC pipe; see sm__pipe_tensor_*",
    "*pipe_shared_cycles*": "the pipes of the model share no datapath; see sm__pipe_tensor_* and sm__pipe_fp64_*",
    "*gmma*": "warp-group matrix instructions run on no pipe of the model",
    "*workid*": "the model has no work-id queue",
    "*pipe_tex*": "the model has no texture unit",
    "*_texin_*": "the model has no texture unit",
    "*pipe_fma_type_fp16*": "half-precision instructions have a pipe of their own; see sm__inst_executed_pipe_fp16",
    "*pipe_fp64_op_*": "the model counts FP64 and DMMA apart; see sm__pipe_fp64_* and sm__pipe_tensor_op_dmma_*",
    "*gcomp*": "the model's L2 does not compress",
    "*aperture*": "the model has device memory only",
    "pcie__*": "the model has no host link",
    "nvl*": "the model has one GPU and no link",
    "mcc__*": "memory controllers are part of the DRAM channels; see dram__cycles_active.*",
    "dram__cycles_elapsed.avg.per_second": "DRAM is timed in SM cycles and has no clock of its own",
    "*cluster*": "of clusters the model has launch__cluster_size and launch__cluster_max_active",
    "launch__persisting_l2_cache_size": "the model has no persisting L2 lines",
    "launch__func_cache_config": "the carve-out follows from the shared memory; see launch__shared_mem_config_size",
    "launch__uses_green_context": "the model has no contexts",
    "launch__tpc*": "the model has no texture processing clusters",
    "launch__stack_size": "the model has no device-side stack limit",
    "launch__barrier_count": "named barriers limit no launch in the model",
    "launch__occupancy_limit_barriers": "named barriers limit no launch in the model",
    "launch__occupancy_per_*": "a curve, not a value: vary the launch and call sim.occupancy.occupancy",
    "derived__pct_occupancy_per_*": "a curve, not a value: vary the launch and call sim.occupancy.occupancy",
    "derived__local_spilling_requests_pct": "the model cannot tell spills from other local memory",
    "derived__derivative_*": "see derived__avg_thread_executed_true",
    "derived__avg_thread_unexecuted_true": "32 less derived__avg_thread_executed_true",
    "memory_type": "a property of an instruction: see Report.instructions()",
    "memory_access_*": "a property of an instruction: see Report.instructions()",
}


def why_absent(name: str) -> str | None:
    """Why the model has no metric of this Nsight name; None when nothing is known of it."""
    return next((reason for pattern, reason in ABSENT.items() if fnmatchcase(name, pattern)), None)
