"""Control bits: what the compiler decided about an instruction's timing, in the high bits of its encoding."""

from __future__ import annotations

from typing import NamedTuple


class Control(NamedTuple):
    """Control bits of one instruction."""

    stall: int  #: cycles until the warp's next instruction may issue, 0..15
    yield_: int  #: the bit as it is stored; 0 asks the scheduler to prefer another warp
    write_barrier: int  #: scoreboard 0..5 released when the results are there, 7 none
    read_barrier: int  #: scoreboard 0..5 released when the sources have been read, 7 none
    wait: int  #: mask of the scoreboards that must be free before issue
    reuse: int  #: mask of source operands kept in the reuse cache


def control_bits(encoding: int) -> Control:
    """Control bits of a 128-bit encoding, Volta to Hopper.

    Bits 105-108 hold the stall count, 109 yield, 110-112 the write barrier, 113-115 the
    read barrier, 116-121 the wait mask, 122-125 operand reuse.
    """
    return Control(
        stall=encoding >> 105 & 0xF,
        yield_=encoding >> 109 & 1,
        write_barrier=encoding >> 110 & 7,
        read_barrier=encoding >> 113 & 7,
        wait=encoding >> 116 & 0x3F,
        reuse=encoding >> 122 & 0xF,
    )
