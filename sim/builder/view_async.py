"""What the thread view offers of Hopper's asynchronous units: mbarriers, TMA, warpgroup products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.builder import barriers, clusters, tma, wgmma
from sim.builder.arrays import Array
from sim.builder.barriers import Mbarrier, Mbarriers
from sim.builder.clusters import RemoteArray
from sim.builder.tma import TensorMapArgument
from sim.builder.trace import Tracer
from sim.builder.types import BOOL, U64
from sim.builder.values import Scalar
from sim.builder.wgmma import Matrix, Sums
from sim.isa import Space, SpecialRegister


class AsynchronousView:
    """The part of `ThreadView` for asynchronous units (Hopper, cc 9.0)."""

    _t: Tracer

    def _place(self, size: int, align: int) -> int:
        raise NotImplementedError

    # --- clusters
    @property
    def cluster_rank(self) -> Scalar:
        """The block's number in its cluster, x first; 0 where there are no clusters."""
        return Scalar(self._t, self._t.special(SpecialRegister.CGACTAID))

    def cluster_sync(self) -> None:
        """Wait until all threads of the cluster are here; what they wrote to shared memory is seen afterwards."""
        self.cluster_arrive()
        self.cluster_wait()

    def cluster_arrive(self, relaxed: bool = False) -> None:
        """Come to the cluster's barrier, and go on; whole warps. `relaxed`: without making stores seen."""
        self._t.mark()
        if not relaxed:
            self._t.emit("membar", BOOL, (), 1)
        self._t.emit("cluster_arrive", BOOL)

    def cluster_wait(self) -> None:
        """Wait until all threads of the cluster have come to its barrier."""
        self._t.mark()
        self._t.emit("cluster_wait", BOOL)

    def remote(self, shared: Array, rank: Any) -> RemoteArray:
        """A shared array as the cluster's block `rank` has it (distributed shared memory).

        It is read, written, and has atomics. The blocks meet at `k.cluster_sync()` before the first access, when all
        have started, and after the last, before one ends.
        """
        return clusters.remote(self._t, shared, rank)

    # --- barriers
    def elect(self) -> Scalar:
        """True in one of the warp's active threads: who starts copies."""
        self._t.mark()
        return Scalar(self._t, self._t.emit("elect", BOOL))

    def barrier(self, number: Any, threads: int) -> None:
        """Wait at the block's barrier `number` (0 to 15, a value too) until `threads` have come, whole warps."""
        barriers.block_barrier(self._t, number, threads, arrives=False)

    def barrier_arrive(self, number: Any, threads: int) -> None:
        """Come to the block's barrier `number`, and go on."""
        barriers.block_barrier(self._t, number, threads, arrives=True)

    def mbarriers(self, count: int) -> Mbarriers:
        """`count` mbarriers in shared memory. One thread gives each its `.init(arrivals)`."""
        t = self._t
        t.mark()
        if not isinstance(count, int) or count < 1:
            raise t.error(f"k.mbarriers takes a constant number, at least 1, not {count!r}")
        at = self._place(count * U64.bytes, 16)
        return Mbarriers(Array(t, "mbarriers", Space.SHARED, U64, (None,), None, at), count)

    def fence_async(self) -> None:
        """What this thread wrote to shared memory, mbarriers included, is seen by TMA and `wgmma` from here on."""
        self._t.mark()
        self._t.emit("fence_async", BOOL)

    def set_max_registers(self, registers: int) -> None:
        """From here on each of the warp's threads has so many registers: a multiple of 8, from 24 to 256.

        The kernel says how many it has before: `@sim.kernel(registers=168)`. Who takes more waits until
        others of the block have given them back. All threads of a warpgroup call it.
        """
        barriers.set_max_registers(self._t, registers)

    # --- copies. They are made once for all active threads of a warp: call them under `k.if_(k.elect())`
    def tma_load(
        self,
        shared: Array,
        index: Any,
        tensor_map: TensorMapArgument,
        coordinates: Sequence[Any],
        bar: Mbarrier,
        blocks: Any = None,
    ) -> None:
        """Start copying the box at `coordinates` (first elements, innermost dimension last) to element `index`.

        `bar` learns that the map's `box_bytes` have come: let it expect them. Elements outside the tensor
        are zero. One copy for the warp's active threads. `blocks`: those of the cluster that get it, a bit each by
        rank (multicast): at the same place in their shared memory, and each one's own `bar` learns of it.
        """
        tma.copy_box(self._t, "load", tensor_map, coordinates, shared, index, bar, blocks)

    def tma_store(
        self, tensor_map: TensorMapArgument, coordinates: Sequence[Any], shared: Array, index: Any = 0
    ) -> None:
        """Start copying a box from element `index` of shared memory; elements outside the tensor are not stored."""
        tma.copy_box(self._t, "store", tensor_map, coordinates, shared, index)

    def tma_reduce(
        self,
        tensor_map: TensorMapArgument,
        coordinates: Sequence[Any],
        shared: Array,
        index: Any = 0,
        operation: str = "add",
    ) -> None:
        """As `tma_store`, but adding to what is there; or "min", "max", of integers "and", "or", "xor" too."""
        tma.copy_box(self._t, "reduce", tensor_map, coordinates, shared, index, operation=operation)

    def tma_prefetch(self, tensor_map: TensorMapArgument, coordinates: Sequence[Any]) -> None:
        """Start bringing a box into L2."""
        tma.copy_box(self._t, "prefetch", tensor_map, coordinates)

    def tma_commit(self) -> None:
        """What this warp has started storing becomes a group."""
        self._t.mark()
        self._t.emit("tma_commit", BOOL)

    def tma_wait(self, groups_left: int = 0) -> None:
        """Wait until at most `groups_left` of this warp's groups of stores are on their way."""
        self._t.mark()
        self._t.emit("wait", BOOL, (), int(groups_left))

    def bulk_load(
        self,
        shared: Array,
        shared_index: Any,
        array: Array,
        index: Any,
        bytes: Any,
        bar: Mbarrier,
        blocks: Any = None,
    ) -> None:
        """Start copying `bytes`, a multiple of 16, from `array[index]` on; `bar` learns that they have come.

        `blocks` as in `tma_load`.
        """
        tma.copy_run(self._t, "load", array, index, bytes, shared, shared_index, bar, blocks)

    def bulk_store(self, array: Array, index: Any, shared: Array, shared_index: Any, bytes: Any) -> None:
        """Start copying `bytes`, a multiple of 16, from shared memory to `array[index]` and on."""
        tma.copy_run(self._t, "store", array, index, bytes, shared, shared_index)

    def bulk_reduce(
        self, array: Array, index: Any, shared: Array, shared_index: Any, bytes: Any, operation: str = "add"
    ) -> None:
        """As `bulk_store`, but adding to what is there, or as `tma_reduce`."""
        tma.copy_run(self._t, "reduce", array, index, bytes, shared, shared_index, operation=operation)

    def bulk_prefetch(self, array: Array, index: Any, bytes: Any) -> None:
        """Start bringing `bytes`, a multiple of 16, into L2."""
        tma.copy_run(self._t, "prefetch", array, index, bytes)

    # --- warpgroup products
    def wgmma_sums(self, columns: int, dtype: Any = np.float32) -> Sums:
        """Registers for 64 x `columns` sums (a multiple of 8 up to 256) of float32, float16 or int32.

        What they hold at first is undefined: begin with `.zero()`, or with a product that has `add=False`.
        """
        return Sums(self._t, columns, dtype)

    def smem_matrix(
        self,
        shared: Array,
        index: Any = 0,
        *,
        major: str = "k",
        swizzle: int = 128,
        leading: int | None = None,
        stride: int | None = None,
        dtype: Any = None,
    ) -> Matrix:
        """A matrix that `wgmma` reads at element `index` of shared memory, as TMA's boxes bring it.

        `major="k"`: a box has rows (m or n) of `swizzle` bytes of k, or of 16 bytes without a swizzle.
        `major="mn"`: it has rows (k) of `swizzle` bytes of m or n; for 16-bit types only. Eight rows
        lie together. The bytes from one box to the next are taken from the last two dimensions of
        `shared`, or given: `leading` and `stride` are a descriptor's, in bytes. `.step(i)` is the matrix of
        the i-th product along k, `.advance(bytes)` one further on. float32 is read as TF32.
        """
        return wgmma.smem_matrix(self._t, shared, index, major, swizzle, leading, stride, dtype)

    def wgmma(self, sums: Sums, a: Any, b: Matrix, *, add: Any = True, commit: bool = False, dtype: Any = None) -> None:
        """Start `sums += A @ B.T`, 64 rows by the sums' columns by 32 bytes of k, by the warpgroup's 128 threads.

        `a`: a matrix in shared memory or four 32-bit registers, laid out as A of `k.mma` (`dtype`: their
        type, if it is not B's); `b`: a matrix of the sums' columns as rows. `add=False` replaces the sums; a
        condition, the same in all threads, chooses. `commit`: this product ends a group.
        """
        wgmma.wgmma(self._t, sums, a, b, add, commit, dtype)

    def wgmma_fence(self) -> None:
        """Before the first product, and after the threads have written sums or A's registers."""
        self._t.mark()
        self._t.emit("wgmma_fence", BOOL)

    def wgmma_commit(self) -> None:
        """The products since the last commit are a group."""
        wgmma.commit(self._t)

    def wgmma_wait(self, groups_left: int = 0) -> None:
        """Wait until at most `groups_left` groups of products are on their way."""
        t = self._t
        t.mark()
        if not isinstance(groups_left, int) or not 0 <= groups_left <= 7:
            raise t.error(f"wgmma_wait takes a constant from 0 to 7, not {groups_left!r}")
        t.emit("wgmma_wait", BOOL, (), groups_left)
