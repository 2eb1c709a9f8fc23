"""What the core tells an instruction about the warp that runs it."""

from __future__ import annotations

from enum import IntEnum

GROUPS = 6  #: groups of instructions that are compiled each on its own


class Ctx(IntEnum):
    """Elements of `ctx`, an int64 array: who the warp is, and where the compiled groups of instructions are."""

    WARP = 0  # index of the warp in its block
    BLOCK_X = 1
    BLOCK_Y = 2
    BLOCK_Z = 3
    BLOCK_DIM_X = 4
    BLOCK_DIM_Y = 5
    BLOCK_DIM_Z = 6
    GRID_DIM_X = 7
    GRID_DIM_Y = 8
    GRID_DIM_Z = 9
    SM = 10
    CLOCK = 11  # SM cycles
    NANOSECONDS = 12  # the global timer
    CLUSTER_RANK = 13  # of the block in its cluster
    MEMORY = 14  # address of the compiled memory instructions, and of what they share with the rest of the core
    SHARED = 15
    ASYNCHRONOUS = 16  # address of the compiled instructions of asynchronous units
    GROUP = 17  # first of GROUPS addresses, from `sim.core.execute.group_addresses`


CTX_SIZE = Ctx.GROUP + GROUPS  #: elements of `ctx`
