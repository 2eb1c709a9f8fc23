"""What a warp's 32 addresses cost: sectors and lines of global memory, passes through the 32 banks."""

from __future__ import annotations

from sim._jit import jit
from sim.core.rows import (
    any_bits,
    element,
    i64,
    lane_numbers,
    lanes,
    load,
    mask_of,
    previous,
    row_function,
    save,
    set_bits,
    spread,
    u32,
    where,
)
from sim.isa import FULL_MASK, WARP_SIZE

ALL_LANES = FULL_MASK
MOST_PIECES = 16  #: contiguous pieces of a request up to which going through them one by one is fastest


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


@jit(inline="always")
def in_order(x, some):
    """Whether values go up from lane to lane of the first, `some`, or down, or stay: then only neighbours are equal."""
    before = previous(x)
    return some & ~(mask_of(x >= before) | 1) == 0 or some & ~(mask_of(x <= before) | 1) == 0


@jit(inline="always")
def halves_equal(x):
    """Whether lanes 16 to 31 have what lanes 0 to 15 have."""
    return mask_of(x == spread(x, 4, 1, 16)) == ALL_LANES


@jit(inline="always")
def as_sectors(bits):
    """A mask of four sectors, from a bit at the first of each sector's eight words."""
    return ((bits & 0x01010101) * 0x10204080 >> 28) & 15


@jit(inline="always")
def sectors_touched(words):
    """The sectors that have any of their words in a mask of a line's 32."""
    some = words | words >> 4
    some |= some >> 2
    return as_sectors(some | some >> 1)


@jit(inline="always")
def sectors_covered(words):
    """The sectors that have all of their words in a mask of a line's 32."""
    every = words & words >> 4
    every &= every >> 2
    return as_sectors(every & every >> 1)


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
    if mask == ALL_LANES and width >= 4:
        x = load(addr, 0)
        line = x >> 7
        n = WARP_SIZE // 2 if halves_equal(x) else WARP_SIZE
        some = (1 << n) - 1
        ordered = in_order(line, some)
        if ordered and mask_of(line == previous(line)) & some == 0:  # a line a lane
            sector = i64(1) << ((x >> 5) & 3)
            save(lines, 0, line)
            save(sectors, 0, sector)
            save(asked, 0, i64(width))
            save(partial, 0, sector)
            return n
        starts = 1 | mask_of((line != previous(line)) | (x - previous(x) != i64(width)))
        if ordered and n == WARP_SIZE and popcount(starts) <= MOST_PIECES:
            n = words_of_pieces(addr, starts, width, lines, asked)
        else:
            n = words_by_line(addr, mask, width, lines, asked)
    elif width >= 4:
        n = words_by_line(addr, mask, width, lines, asked)
    else:
        n = narrow_words_by_line(addr, mask, width, lines, asked, partial)
    for k in range(n):
        words = asked[k]
        asked[k] = 4 * popcount(words) if width >= 4 else min(4 * popcount(words), width * (partial[k] >> 4))
        short = 0 if width >= 4 else partial[k] & 15
        sectors[k] = sectors_touched(words)
        partial[k] = sectors[k] & (short | ~sectors_covered(words))
    return n


@jit
def words_by_line(addr, mask, width, lines, words):
    """Fill `lines` in order of first use, and `words` with the mask of touched words of each; returns how many.

    Lines of one access are less than 2**32 lines apart, so 32 bits tell them apart.
    """
    x = load(addr, 0)
    row = u32(x >> 7)
    touched = where(lanes(mask), u32(i64((1 << (width >> 2)) - 1)) << u32((x & 127) >> 2), 0)
    left = mask
    n = 0
    while left:
        line = addr[lowest_lane(left)] >> 7
        here = row == u32(i64(line))
        left &= ~mask_of(here)
        lines[n] = line
        words[n] = any_bits(where(here, touched, 0))
        n += 1
    return n


@jit
def words_of_pieces(addr, starts, width, lines, words):
    """The same for 32 lanes with lines in order, of which those from one of `starts` to the next are contiguous."""
    n = 0
    while starts:
        first = lowest_lane(starts)
        starts &= starts - 1
        lanes_of_piece = (lowest_lane(starts) if starts else WARP_SIZE) - first
        line = addr[first] >> 7
        touched = ((1 << (lanes_of_piece * width >> 2)) - 1) << ((addr[first] & 127) >> 2)
        if n > 0 and lines[n - 1] == line:
            words[n - 1] |= touched
        else:
            lines[n] = line
            words[n] = touched
            n += 1
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
def bank_passes(addr, mask, width):
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
            passes, ideal = group_passes(addr, low, width)
        if high:
            more, least = group_passes(addr, high, width)
            passes, ideal = passes + more, ideal + least
        return passes, ideal
    return group_passes(addr, mask, width)


@jit
def group_passes(addr, mask, width):
    """(passes, ideal) of lanes that share their passes: the most distinct words a bank is asked for.

    Counted in units of the access: aligned units of 8 or 16 bytes take two or four
    neighbouring banks whole, so 16 or 8 groups of banks stand for all 32.
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
    firsts &= ~(mask_of(units == spread(units, 4, 1, 16)) & (firsts << 16))  # so do lanes of one place in their half
    count = popcount(firsts)
    if popcount(any_bits(where(lanes(firsts), u32(i64(1)) << bank, 0))) == count:
        return 1, ((count << shift) + 127) // 128
    return conflicting_passes(addr, units, bank, firsts, shift)


@row_function
def conflicting_passes(addr, units, bank, mask, shift):
    """`group_passes` bank by bank."""
    further = mask & (mask - 1)
    some = ALL_LANES if mask >> 16 else ALL_LANES >> 16
    apart = in_order(units, some) and further & mask_of(units == previous(units)) == 0  # no two lanes have one unit
    most, distinct, left = 1, 0, mask
    while left:
        here = mask_of(bank == u32(i64(addr[lowest_lane(left)] >> shift & (128 >> shift) - 1))) & left
        left &= ~here
        count = popcount(here) if apart else distinct_values(units, here)
        most = max(most, count)
        distinct += count
    return most, ((distinct << shift) + 127) // 128


@row_function
def distinct_values(x, mask):
    """How many different values the lanes of a mask have."""
    count = 0
    while mask:
        mask &= ~mask_of(x == i64(element(x, lowest_lane(mask))))
        count += 1
    return count


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
