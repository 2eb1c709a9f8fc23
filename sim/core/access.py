"""What a warp's 32 addresses cost: sectors and lines of global memory, passes through the 32 banks."""

from __future__ import annotations

from sim._jit import jit
from sim.core.rows import i64, lane_numbers, load, mask_of
from sim.isa import FULL_MASK

ALL_LANES = FULL_MASK


@jit(inline="always")
def popcount(x):
    """Set bits of a 32-bit mask."""
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) & 0xFFFFFFFF) >> 24


@jit
def is_contiguous(addr, mask, width):
    """Whether all 32 lanes are active and lane i is at addr[0] + i * width."""
    if mask != ALL_LANES:
        return False
    return mask_of(load(addr, 0) - i64(lane_numbers()) * i64(width) != i64(addr[0])) == 0


@jit
def lowest_lane(mask):
    """The first lane of a mask that is not empty."""
    lane = 0
    while (mask >> lane) & 1 == 0:
        lane += 1
    return lane


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
    n = 0
    at = 0
    for i in range(32):
        if (mask >> i) & 1 == 0:
            continue
        line = addr[i] >> 7
        if n == 0 or lines[at] != line:
            at = n
            for k in range(n):
                if lines[k] == line:
                    at = k
                    break
            if at == n:
                lines[n] = line
                sectors[n] = 0
                asked[n] = 0  # first the mask of touched words, then their bytes
                partial[n] = 0  # first the bytes by lanes, a byte of count a sector, then the mask
                n += 1
        sector = (addr[i] >> 5) & 3
        sectors[at] |= 1 << sector
        words = max(width // 4, 1)
        asked[at] |= ((1 << words) - 1) << ((addr[i] & 127) >> 2)
        partial[at] += width << (16 * sector) if sector < 3 else 0
        if sector == 3:
            lines[32 + at] = (lines[32 + at] if partial[at] >> 62 & 1 else 0) + width
            partial[at] |= 1 << 62
    for k in range(n):
        words = asked[k]
        covered = partial[k]
        lanes = (covered & 0xFFFF) + ((covered >> 16) & 0xFFFF) + ((covered >> 32) & 0xFFFF)
        third = lines[32 + k] if covered >> 62 & 1 else 0
        asked[k] = min(4 * popcount(words), lanes + third)
        partial[k] = 0
        for sector in range(4):
            if (sectors[k] >> sector) & 1:
                full = (words >> (8 * sector)) & 0xFF == 0xFF
                count = third if sector == 3 else (covered >> (16 * sector)) & 0xFFFF
                if not full or count < 32:
                    partial[k] |= 1 << sector
    return n


@jit
def bank_passes(addr, mask, width, counts, words):
    """(passes, ideal): passes that 32 four-byte banks need, and that as many distinct words need at least.

    A pass serves one word a bank. Lanes of 32- and 64-bit accesses share their passes;
    a 128-bit access goes as two half-warps, each with passes of its own. Measured on an
    H200: `bank` rows of the microbenchmarks (a 64-bit load of one address by all lanes
    takes one pass, a 128-bit one two), and the counters of kernels whose half-warps read
    the same 256 bytes (four passes, not two).
    `counts` int64[32] and `words` int64[32, 32] are work space.
    """
    if width == 16:
        low, high = mask & 0xFFFF, mask & 0xFFFF0000
        passes, ideal = 0, 0
        if low:
            passes, ideal = group_passes(addr, low, width, counts, words)
        if high:
            more, least = group_passes(addr, high, width, counts, words)
            passes, ideal = passes + more, ideal + least
        return passes, ideal
    return group_passes(addr, mask, width, counts, words)


@jit
def group_passes(addr, mask, width, counts, words):
    """(passes, ideal) of lanes that share their passes: the most distinct words a bank is asked for."""
    first = lowest_lane(mask)
    run = mask >> first
    x = load(addr, 0)
    if mask_of(x != i64(addr[first])) & mask == 0:
        return 1, 1
    if width >= 4 and run & (run + 1) == 0:
        lane = i64(lane_numbers())
        if mask_of(x - lane * i64(width) != i64(addr[first] - first * width)) & mask == 0:
            passes = (popcount(run) * width + 127) // 128
            return passes, passes
    most, distinct = 1, 0
    for b in range(32):
        counts[b] = 0
    for i in range(32):
        if (mask >> i) & 1 == 0:
            continue
        for j in range(max(width // 4, 1)):
            word = (addr[i] >> 2) + j
            b = word & 31
            found = False
            for k in range(counts[b]):
                if words[b, k] == word:
                    found = True
                    break
            if not found:
                words[b, counts[b]] = word
                counts[b] += 1
                distinct += 1
                most = max(most, counts[b])
    return most, (distinct + 31) // 32


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
