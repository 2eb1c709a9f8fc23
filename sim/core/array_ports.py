"""The ports of the half of the unified array in which shared memory lies.

The array that shared memory and L1 divide has two halves, each with a port to read and a port to write. Shared memory
lies in one of them; L1 fills the other first, then what is left of this one. Instructions take turns at the shared
stage, but two things reach lines of L1 without one: sectors that come from L2 are written, stored data is read on its
way to L2. In this half they take a port for a cycle, of 16 banks, and an access of shared memory that needs any of them
in that cycle loses a pass. Measured on an H200: microbench_11.
"""

from __future__ import annotations

from sim._jit import inner
from sim.core.layout import C_L1_APART, C_L1_LINES, PORT_WORDS

READ, WRITE = range(2)  #: ports
BOTH = 3  #: halves of the banks: 0 to 15 are bit 0 of a mask, 16 to 31 bit 1
WORD = 32  #: cycles that a word of a port's calendar holds, in its lower half; the upper half says which


@inner(inline="always")
def taken(a, port, cycle):
    """The banks of which a port is taken in a cycle, as a mask."""
    at, which = cycle // WORD % PORT_WORDS, cycle // WORD
    mask = 0
    for half in range(2):
        word = a.ports[port, half, at]
        if word >> WORD == which:
            mask |= ((word >> cycle % WORD) & 1) << half
    return mask


@inner
def take_port(a, port, banks, cycle):
    """Take a port of `banks` in the first cycle from `cycle` on in which nothing else has it."""
    while taken(a, port, cycle):
        cycle += 1
    at, which = cycle // WORD % PORT_WORDS, cycle // WORD
    for half in range(2):
        if (banks >> half) & 1:
            if a.ports[port, half, at] >> WORD != which:
                a.ports[port, half, at] = which << WORD
            a.ports[port, half, at] |= 1 << cycle % WORD


@inner
def take_ports_for(a, s, port, at, sectors, cycle):
    """Take a port for `sectors` of tag `at`'s line, 64 bytes a cycle from `cycle` on; nothing if it lies apart."""
    if s.cfg[C_L1_APART] < s.cfg[C_L1_LINES] and a.l1_data[at] >= s.cfg[C_L1_APART]:
        for half in range(2):
            if (sectors >> 2 * half) & 3:
                take_port(a, port, 1 << half, cycle)


@inner
def passes_lost(a, port, banks, cycle, passes):
    """Cycles in which the port is taken of any of `banks`, until `passes` were made from `cycle` on."""
    lost = 0
    while passes > 0:
        if banks & taken(a, port, cycle):
            lost += 1
        else:
            passes -= 1
        cycle += 1
    return lost
