"""What a warp's 32 addresses cost: sectors and lines of global memory, passes through the 32 banks."""

from __future__ import annotations

from sim._jit import jit
from sim.core.rows import any_bits, i64, lane_numbers, lanes, load, mask_of, previous, set_bits, u32, where
from sim.isa import FULL_MASK

ALL_LANES = FULL_MASK


@jit(inline="always")
def popcount(x):
    """Set bits of a mask."""
    return set_bits(x)


@jit
def is_contiguous(addr, mask, width):
    """Whether all 32 lanes are active and lane i is at addr[0] + i * width."""
    if mask != ALL_LANES:
        return False
    return mask_of(load(addr, 0) - i64(lane_numbers()) * i64(width) != i64(addr[0])) == 0


@jit(inline="always")
def lowest_lane(mask):
    """The first lane of a mask that is not empty."""
    return popcount((mask & -mask) - 1)


@jit
def lanes_outside(addr, mask, low, high):
    """Active lanes whose address is not in [low, high]."""
    x = load(addr, 0)
    return mask_of((x < i64(low)) | (x > i64(high))) & mask


@jit
def coalesce(addr, mask, width, lines, sectors, asked, partial):
    """Group a warp's lanes by 128-byte line; returns the number of lines.

    Fills, per line in order of first use: `lines` (address >> 7), `sectors` (mask
    of its four 32-byte sectors), `asked` (distinct bytes, to the 4-byte word for
    accesses of a word or more) and `partial` (sectors of which some byte is not
    covered). `addr` int64[32]; accesses are aligned to `width` (1 to 16 bytes).
    """
    if is_contiguous(addr, mask, width) and width >= 4:
        first, last = addr[0], addr[0] + 32 * width - 1
        n = (last >> 7) - (first >> 7) + 1
        for k in range(n):
            line = (first >> 7) + k
            low = max(first, line << 7)
            high = min(last, (line << 7) + 127)
            s0, s1 = (low >> 5) & 3, (high >> 5) & 3
            lines[k] = line
            sectors[k] = ((1 << (s1 + 1)) - 1) & ~((1 << s0) - 1)
            asked[k] = high - low + 1
            partial[k] = 0
            if low & 31:
                partial[k] |= 1 << s0
            if (high + 1) & 31:
                partial[k] |= 1 << s1
        return n
    if width >= 4:
        n = words_by_line(addr, mask, width, lines, asked)
    else:
        n = narrow_words_by_line(addr, mask, width, lines, asked, partial)
    for k in range(n):
        words = asked[k]
        asked[k] = 4 * popcount(words) if width >= 4 else min(4 * popcount(words), width * (partial[k] >> 4))
        short = 0 if width >= 4 else partial[k] & 15
        sectors[k], partial[k] = 0, 0
        for sector in range(4):
            part = (words >> (8 * sector)) & 0xFF
            if part:
                sectors[k] |= 1 << sector
                if part != 0xFF or (short >> sector) & 1:
                    partial[k] |= 1 << sector
    return n


@jit
def words_by_line(addr, mask, width, lines, words):
    """Fill `lines` in order of first use, and `words` with the mask of touched words of each; returns how many."""
    one = (1 << (width >> 2)) - 1
    n = 0
    at = 0
    for i in range(32):
        if (mask >> i) & 1 == 0:
            continue
        line = addr[i] >> 7
        if n == 0 or lines[at] != line:
            at = 0
            while at < n and lines[at] != line:
                at += 1
            if at == n:
                lines[n] = line
                words[n] = 0
                n += 1
        words[at] |= one << ((addr[i] & 127) >> 2)
    return n


@jit
def narrow_words_by_line(addr, mask, width, lines, words, lane_counts):
    """The same for 1- and 2-byte accesses.

    `lane_counts` becomes, a line, 16 times its lanes, plus the mask of sectors of
    which the lanes cannot fill all 32 bytes.
    """
    x = load(addr, 0)
    touched = u32(i64(1)) << u32((x & 127) >> 2)
    left = mask
    n = 0
    while left:
        line = addr[lowest_lane(left)] >> 7
        here = mask_of((x >> 7) == i64(line)) & left
        left &= ~here
        lines[n] = line
        words[n] = any_bits(where(lanes(here), touched, 0))
        lane_counts[n] = popcount(here) << 4
        for sector in range(4):
            if popcount(mask_of((x & 96) == i64(32 * sector)) & here) * width < 32:
                lane_counts[n] |= 1 << sector
        n += 1
    return n


@jit
def banks_used(addr, mask):
    """Bit 0: some lane's word is in banks 0 to 15; bit 1: in banks 16 to 31."""
    upper = mask_of((load(addr, 0) & i64(64)) != i64(0)) & mask
    return int(upper != mask) + 2 * int(upper != 0)


@jit
def bank_passes(addr, mask, width, work):
    """(passes, ideal): passes that 32 four-byte banks need, and that as many distinct words need at least.

    A pass serves one word a bank. Lanes of 32- and 64-bit accesses share their passes;
    a 128-bit access goes as two half-warps, each with passes of its own. Measured on an
    H200: `bank` rows of the microbenchmarks (a 64-bit load of one address by all lanes
    takes one pass, a 128-bit one two), and the counters of kernels whose half-warps read
    the same 256 bytes (four passes, not two).
    """
    if width == 16:
        low, high = mask & 0xFFFF, mask & 0xFFFF0000
        passes, ideal = 0, 0
        if low:
            passes, ideal = group_passes(addr, low, width, work)
        if high:
            more, least = group_passes(addr, high, width, work)
            passes, ideal = passes + more, ideal + least
        return passes, ideal
    return group_passes(addr, mask, width, work)


@jit
def group_passes(addr, mask, width, work):
    """(passes, ideal) of lanes that share their passes: the most distinct words a bank is asked for.

    Counted in units of the access: aligned units of 8 or 16 bytes take two or four
    neighbouring banks whole, so 16 or 8 groups of banks stand for all 32.
    `work` int64[64] is work space.
    """
    first = lowest_lane(mask)
    x = load(addr, 0)
    if mask_of(x != i64(addr[first])) & mask == 0:
        return 1, 1
    run = mask >> first
    if run & (run + 1) == 0:
        lane = i64(lane_numbers())
        if mask_of(x - lane * i64(width) != i64(addr[first] - first * width)) & mask == 0:
            words = ((addr[first] + popcount(run) * width - 1) >> 2) - (addr[first] >> 2) + 1
            return (words + 31) // 32, (words + 31) // 32
    shift = 4 if width == 16 else (3 if width == 8 else 2)
    units, banks = x >> i64(shift), 128 >> shift
    bank = u32(units & i64(banks - 1))
    firsts = mask & (mask_of(units != previous(units)) | ~(mask << 1))  # neighbours with one unit count as one
    count = popcount(firsts)
    if popcount(any_bits(where(lanes(firsts), u32(i64(1)) << bank, 0))) == count:
        return 1, ((count << shift) + 127) // 128
    return conflicting_passes(addr, firsts, shift, work)


@jit
def conflicting_passes(addr, mask, shift, work):
    """`group_passes` lane by lane: each bank keeps a list of the lanes that were the first to ask for a unit."""
    banks = 128 >> shift
    for b in range(banks):
        work[b] = -1
    most, distinct = 1, 0
    for i in range(32):
        if (mask >> i) & 1 == 0:
            continue
        unit = addr[i] >> shift
        b = unit & (banks - 1)
        other = work[b]
        count = 1
        while other >= 0 and addr[other] >> shift != unit:
            other = work[32 + other]
            count += 1
        if other < 0:
            work[32 + i] = work[b]
            work[b] = i
            distinct += 1
            most = max(most, count)
    return most, ((distinct << shift) + 127) // 128


@jit
def atomic_passes(addr, mask, counts):
    """Passes of a shared atomic: the most lanes any bank is asked for, equal addresses one after another."""
    most = 1
    for b in range(32):
        counts[b] = 0
    for i in range(32):
        if (mask >> i) & 1:
            b = (addr[i] >> 2) & 31
            counts[b] += 1
            most = max(most, counts[b])
    return most
