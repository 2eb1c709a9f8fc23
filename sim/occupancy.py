"""Occupancy: how many blocks of a kernel fit on an SM, what limits them, and whether a launch is allowed at all.

The arithmetic is that of NVIDIA's occupancy calculator (`cuda_occupancy.h`): warp
slots, registers with their allocation units, shared memory with the system's
share, block slots. The carve-out is the driver's choice as seen on a card.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sim.launch import Dim3, LaunchError
from sim.profile import Profile
from sim.profile_keys import OccupancyLimits

KIB = 1024
NO_SHARED_TARGET_KIB = 32  #: what the driver gives a kernel without shared memory of its own, at most


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What fits on one SM. Limits are in blocks; `limiters` are those that equal `blocks_per_sm`."""

    blocks_per_sm: int
    warps_per_block: int
    warps_per_sm: int
    max_warps_per_sm: int
    limit_warps: int
    limit_registers: int
    limit_shared: int  #: with the largest carve-out, as the calculator
    limit_blocks: int
    limit_shared_in_config: int  #: with the carve-out that is set, as the profiler
    registers_per_thread: int  #: allocated
    shared_per_block_bytes: int  #: allocated, with the system's share
    shared_carveout_bytes: int  #: shared memory's part of the unified array
    blocks_per_cluster: int = 1
    active_clusters: int = 0  #: that fit on the GPU at a time; 0 without clusters

    @property
    def fraction(self) -> float:
        """Theoretical occupancy, 0 to 1."""
        return self.warps_per_sm / self.max_warps_per_sm

    @property
    def limiters(self) -> tuple[str, ...]:
        """Names of the resources that run out first: `"warps"`, `"registers"`, `"shared memory"`, `"blocks"`."""
        limits = {
            "warps": self.limit_warps,
            "registers": self.limit_registers,
            "shared memory": self.limit_shared,
            "blocks": self.limit_blocks,
        }
        return tuple(name for name, limit in limits.items() if limit == self.blocks_per_sm)


def occupancy(
    gpu: Profile | OccupancyLimits,
    threads_per_block: int,
    registers_per_thread: int,
    shared_static_bytes: int = 0,
    shared_dynamic_bytes: int = 0,
    carveout_kib: int | None = None,
) -> Occupancy:
    """Occupancy of a kernel; `blocks_per_sm` is 0 where not even one block fits.

    `carveout_kib` sets shared memory's part of the unified array (rounded up to one
    the GPU has); `None` leaves it to the driver. Raises `LaunchError` for a block
    that CUDA refuses on any SM.
    """
    limits = gpu.occupancy if isinstance(gpu, Profile) else gpu
    shared = shared_static_bytes + shared_dynamic_bytes
    check_block_resources(limits, threads_per_block, registers_per_thread, shared)
    if carveout_kib is not None and not 0 <= carveout_kib <= largest_kib(limits):
        raise LaunchError(f"carve-out of {carveout_kib} KiB: 0 to {largest_kib(limits)} are possible")
    warps = _ceil_div(threads_per_block, limits.warp_size)
    allocated = _round_up(shared + limits.shared_reserved_bytes, limits.shared_allocation_unit_bytes)
    registers_per_warp = _round_up(registers_per_thread * limits.warp_size, limits.register_allocation_unit)

    limit_warps = limits.max_warps_per_sm // warps
    limit_registers = _register_limit(limits, registers_per_warp, warps)
    largest = largest_kib(limits) if carveout_kib is None else _carveout_at_least(limits, carveout_kib * KIB)
    limit_shared = _shared_limit(limits, largest * KIB, allocated)
    blocks = min(limit_warps, limit_registers, limit_shared, limits.max_blocks_per_sm)
    if carveout_kib is None:
        slots = min(limit_warps, limits.max_blocks_per_sm)
        carveout = driver_carveout_kib(limits, blocks if shared else slots, allocated, shared)
    else:
        carveout = largest
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_block=warps,
        warps_per_sm=blocks * warps,
        max_warps_per_sm=limits.max_warps_per_sm,
        limit_warps=limit_warps,
        limit_registers=limit_registers,
        limit_shared=limit_shared,
        limit_blocks=limits.max_blocks_per_sm,
        limit_shared_in_config=_shared_limit(limits, carveout * KIB, allocated),
        registers_per_thread=registers_per_warp // limits.warp_size,
        shared_per_block_bytes=allocated,
        shared_carveout_bytes=carveout * KIB,
    )


def driver_carveout_kib(limits: OccupancyLimits, blocks: int, allocated_bytes: int, shared_bytes: int) -> int:
    """The carve-out that the driver chooses, as 305 launches of 73 kernels on an H200 show it.

    `blocks` of `allocated_bytes` are resident; for kernels without shared memory of
    their own (`shared_bytes` 0) as many as there are warp and block slots. The driver
    leaves room beyond what they need: twice that, as long as half of the largest
    carve-out suffices; without own shared memory four times, up to 32 KiB. Two of the
    kernels got less (tests/test_occupancy.py names them).
    """
    need = blocks * allocated_bytes
    if shared_bytes:
        target = max(need, min(2 * need, largest_kib(limits) * KIB // 2))
    else:
        target = max(need, min(4 * need, NO_SHARED_TARGET_KIB * KIB))
    return _carveout_at_least(limits, target)


def check_launch(gpu: Profile | OccupancyLimits, grid: Dim3, block: Dim3, registers: int, shared_bytes: int) -> None:
    """Raise `LaunchError`, with CUDA's name for it, if the GPU would refuse this launch.

    `registers` are a thread's, `shared_bytes` a block's, static and dynamic.
    """
    limits = gpu.occupancy if isinstance(gpu, Profile) else gpu
    largest_block = (limits.max_block_x, limits.max_block_y, limits.max_block_z)
    largest_grid = (limits.max_grid_x, limits.max_grid_y, limits.max_grid_z)
    for what, dims, largest in (("block", block, largest_block), ("grid", grid, largest_grid)):
        for axis, size, most in zip("xyz", dims, largest, strict=True):
            if size < 1:
                raise LaunchError(f"{what}={dims}: {axis} must be at least 1 (cudaErrorInvalidConfiguration)")
            if size > most:
                raise LaunchError(f"{what}={dims}: {axis} is at most {most} (cudaErrorInvalidConfiguration)")
    threads = block[0] * block[1] * block[2]
    if occupancy(limits, threads, registers, shared_bytes).blocks_per_sm == 0:
        raise LaunchError(
            f"too many resources requested for launch: {threads} threads of {registers} registers do not fit the "
            f"{limits.registers_per_sm} registers of an SM; use fewer threads a block or fewer registers "
            "(cudaErrorLaunchOutOfResources)"
        )


def group_sizes(profile: Profile) -> list[int]:
    """SMs of each part of the GPU that a cluster cannot leave; none without clusters.

    As many of `cluster.group_sms` as there are SMs, and one more of the SMs that are left.
    """
    sizes: list[int] = []
    for sms in profile.cluster.group_sms if profile.cluster is not None else ():
        sizes.append(min(sms, profile.gpu.sm_count - sum(sizes)))
    return [sms for sms in (*sizes, profile.gpu.sm_count - sum(sizes)) if sms > 0] if sizes else []


def max_active_clusters(profile: Profile, fit: Occupancy, blocks: int) -> int:
    """How many clusters of `blocks` fit on the GPU at a time, as `cudaOccupancyMaxActiveClusters` says it.

    A cluster stays in one group of SMs and has no two blocks on one SM (microbench_9, `max_active_clusters`).
    """
    return sum(fit.blocks_per_sm * sms // blocks for sms in group_sizes(profile) if sms >= blocks)


def with_clusters(profile: Profile, fit: Occupancy, cluster: Dim3, non_portable: bool) -> Occupancy:
    """The occupancy of blocks in clusters. Raises `LaunchError`, with CUDA's name for it, for those the GPU refuses."""
    blocks = cluster[0] * cluster[1] * cluster[2]
    if blocks == 1:
        return fit
    limits = profile.cluster
    if limits is None:
        raise LaunchError(
            f"cluster={cluster}: the GPU has no thread block clusters, its profile no table [cluster]; "
            "use a GPU of Hopper's kind, such as h200"
        )
    if blocks > limits.max_blocks:
        raise LaunchError(
            f"cluster={cluster}: {blocks} blocks; at most {limits.max_blocks} are possible "
            "(cudaErrorInvalidClusterSize)"
        )
    if blocks > limits.portable_blocks and not non_portable:
        raise LaunchError(
            f"cluster={cluster}: {blocks} blocks, more than the {limits.portable_blocks} that every GPU of this kind "
            "has; non_portable_cluster=True allows them (cudaErrorInvalidClusterSize)"
        )
    active = max_active_clusters(profile, fit, blocks)
    if active == 0:
        raise LaunchError(
            f"cluster={cluster}: no part of the GPU has {blocks} SMs together, the largest {max(group_sizes(profile))} "
            "(cudaErrorInvalidClusterSize)"
        )
    return replace(fit, blocks_per_cluster=blocks, active_clusters=active)


def check_block_resources(limits: OccupancyLimits, threads: int, registers: int, shared_bytes: int) -> None:
    """Raise `LaunchError` for a block that no SM of the GPU takes, whatever else is resident."""
    if threads < 1:
        raise LaunchError(f"{threads} threads a block: at least 1 is needed (cudaErrorInvalidConfiguration)")
    if threads > limits.max_threads_per_block:
        raise LaunchError(
            f"{threads} threads a block: at most {limits.max_threads_per_block} are allowed "
            "(cudaErrorInvalidConfiguration)"
        )
    if not 0 <= registers <= limits.max_registers_per_thread:
        raise LaunchError(
            f"{registers} registers a thread: at most {limits.max_registers_per_thread} are possible; "
            "keep fewer values live (cudaErrorLaunchOutOfResources)"
        )
    if not 0 <= shared_bytes <= limits.shared_per_block_optin_bytes:
        raise LaunchError(
            f"{shared_bytes} bytes of shared memory a block: at most {limits.shared_per_block_optin_bytes} "
            "are allowed, opted in (cudaErrorInvalidValue)"
        )


def largest_kib(limits: OccupancyLimits) -> int:
    """The largest carve-out."""
    return max(limits.shared_carveouts_kib)


def _carveout_at_least(limits: OccupancyLimits, size_bytes: int) -> int:
    fitting = [kib for kib in limits.shared_carveouts_kib if kib * KIB >= size_bytes]
    return min(fitting, default=largest_kib(limits))


def _register_limit(limits: OccupancyLimits, registers_per_warp: int, warps_per_block: int) -> int:
    """Blocks by registers: each of the SM's parts holds whole warps only."""
    if registers_per_warp == 0:
        return limits.max_blocks_per_sm
    granularity = limits.warp_allocation_granularity
    if registers_per_warp * _round_up(warps_per_block, granularity) > limits.registers_per_block:
        return 0
    warps = granularity * (limits.registers_per_sm // granularity // registers_per_warp)
    return warps // warps_per_block


def _shared_limit(limits: OccupancyLimits, carveout_bytes: int, allocated_bytes: int) -> int:
    return carveout_bytes // allocated_bytes if allocated_bytes else limits.max_blocks_per_sm


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _round_up(value: int, unit: int) -> int:
    return _ceil_div(value, unit) * unit
