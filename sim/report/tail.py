"""Waves and their tail: how a grid fills the GPU, and what its last wave costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Waves:
    """How many times a grid fills the GPU.

    A wave is as many blocks as the GPU holds at once. The last wave may be
    partial; a grid smaller than one wave is a partial last wave and nothing else.
    """

    blocks: int
    blocks_per_wave: int

    @property
    def per_sm(self) -> float:
        """Nsight's waves per SM: blocks over blocks a wave, not rounded."""
        return self.blocks / self.blocks_per_wave

    @property
    def count(self) -> int:
        """Waves with the last one counted whole."""
        return -(-self.blocks // self.blocks_per_wave)

    @property
    def full(self) -> int:
        return self.blocks // self.blocks_per_wave

    @property
    def last_blocks(self) -> int:
        """Blocks in the last wave: 1 to `blocks_per_wave`."""
        return self.blocks - (self.count - 1) * self.blocks_per_wave

    @property
    def last_utilization(self) -> float:
        """Share of the last wave's places that hold a block."""
        return self.last_blocks / self.blocks_per_wave

    @property
    def efficiency(self) -> float:
        """Share of all waves' places that hold a block."""
        return self.per_sm / self.count


@dataclass(frozen=True, slots=True)
class Tail:
    """What the end of a launch cost, from the blocks' own times.

    `last_wave_cycles` runs from the start of the last wave's first block to the
    end of the last block. `idle_sm_cycles` sums, over SMs, the cycles between an
    SM's last block and the last block of all.
    """

    span_cycles: int  #: first block's start to last block's end
    last_wave_cycles: int
    idle_sm_cycles: int
    sms: int

    @property
    def lost_cycles(self) -> float:
        """Idle SM-cycles spread over all SMs: the cycles that a perfect ending would save."""
        return self.idle_sm_cycles / self.sms

    @property
    def lost_fraction(self) -> float:
        """`lost_cycles` as a share of the span; 0 for an empty launch."""
        return self.lost_cycles / self.span_cycles if self.span_cycles else 0.0


def measure_tail(blocks: npt.NDArray[np.int64], sms: int, waves: Waves) -> Tail:
    """The tail of a launch with block times `blocks[n, 3]` (SM, start, end) on `sms` SMs.

    The last wave's blocks are the last `waves.last_blocks` in order of their
    start; blocks that start together count in grid order.
    """
    if not len(blocks):
        return Tail(0, 0, 0, sms)
    sm, start, end = blocks.T
    first, last = int(start.min()), int(end.max())
    opened = int(np.sort(start, kind="stable")[-min(waves.last_blocks, len(start))])
    sm_end = np.full(sms, first, np.int64)
    np.maximum.at(sm_end, sm, end)
    return Tail(last - first, last - opened, int((last - sm_end).sum()), sms)
