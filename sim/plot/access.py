"""What one memory instruction of one warp touched: sectors and burst sections, or banks of shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim.counters import Stall, Track
from sim.isa import WARP_SIZE, Col
from sim.plot.figure import BLUE, ORANGE, PALE, YELLOW, draw_legend, headline, new_figure
from sim.report.formatting import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sim.profile import Profile
    from sim.report import Report

GLOBAL_KINDS = ("global_ld", "global_st", "global_atom", "global_red", "ldgsts")
SHARED_KINDS = ("shared_ld", "shared_st", "ldsm", "stsm", "ldgsts")
MATRIX_ROW_BYTES = 16  #: that a lane's address of a matrix load or store stands for
MATRIX_LANES = 8  #: that address one 8x8 matrix
LINES_SHOWN = 40


@dataclass(frozen=True)
class Access:
    """One memory instruction that one warp issued."""

    pc: int
    block: int
    warp: int
    cycle: int
    kind: str
    width: int  #: bytes a lane
    lanes: npt.NDArray[np.int64]  #: that were on
    addresses: npt.NDArray[np.int64]  #: their byte addresses
    title: str  #: source line, or the instruction

    @property
    def asked(self) -> str:
        """Who asked, to be followed by for what."""
        lanes = counted(len(self.lanes), "lane")
        return f"Block {self.block}, warp {self.warp}, cycle {self.cycle:,}: {lanes} ask"


def choose_access(
    report: Report,
    kinds: tuple[str, ...],
    *,
    line: int | None = None,
    pc: int | None = None,
    block: int | None = None,
    warp: int | None = None,
    nth: int = 0,
) -> Access:
    """The `nth` recorded access, in order of time, of such a kind that fits what is given.

    Without `line` and `pc` it is one of the instruction with the largest `_cost`. Raises
    `ValueError` if there is none, `TimelineError` without a timeline.
    """
    recorded, columns = report.recorded, report.content.instructions
    table = recorded.columns
    rows = (table["track"] == Track.WARP) & (table["state"] == Stall.SELECTED) & (table["access"] >= 0)
    rows &= np.isin(np.array(columns["kind"])[table["pc"]], kinds)
    if line is not None:
        rows &= np.array(columns["line"])[table["pc"]] == line
    for name, wanted in (("pc", pc), ("block", block), ("warp", warp)):
        if wanted is not None:
            rows &= table[name] == wanted
    at = np.flatnonzero(rows)
    if line is None and pc is None and len(at):
        at = at[table["pc"][at] == max(set(table["pc"][at].tolist()), key=lambda k: (*_cost(report, kinds, k), -k))]
    at = at[np.argsort(table["start"][at], kind="stable")]
    if not 0 <= nth < len(at):
        given = {"line": line, "pc": pc, "block": block, "warp": warp}
        asked = "".join(f", {name}={value}" for name, value in given.items() if value is not None)
        raise ValueError(
            f"{report.header.kernel}: {len(at)} accesses of kind {', '.join(kinds)}{asked} were recorded on "
            f"SM {', '.join(map(str, recorded.sms))}; none is nth={nth}"
        )
    return _access(report, int(at[nth]), kinds)


def _cost(report: Report, kinds: tuple[str, ...], pc: int) -> tuple[int, int]:
    """What an instruction moved beyond what it needed, and what it moved: wavefronts of shared memory, or sectors."""
    moved = "wavefronts" if kinds is SHARED_KINDS else "sectors"
    columns = report.content.instructions
    return columns[moved][pc] - columns[f"ideal_{moved}"][pc], columns[moved][pc]


def _access(report: Report, row: int, kinds: tuple[str, ...]) -> Access:
    recorded, columns = report.recorded, report.content.instructions
    table = {name: values[row] for name, values in recorded.columns.items()}
    pc = int(table["pc"])
    kind = columns["kind"][pc]
    on = (int(table["on"]) >> np.arange(WARP_SIZE)) & 1 == 1
    first = WARP_SIZE if kind == "ldgsts" and kinds is GLOBAL_KINDS else 0
    addresses = recorded.addresses[table["access"], first : first + WARP_SIZE]
    on &= addresses >= 0
    source = columns["source"][pc]
    title = f"line {columns['line'][pc]}: {source}" if source else columns["sass"][pc]
    assert report.launch is not None  # a report with a timeline comes from a device
    width = int(report.launch.program.decoded.code[pc, Col.WIDTH])
    return Access(
        pc, int(table["block"]), int(table["warp"]), int(table["start"]), kind, width,
        np.flatnonzero(on), addresses[on], title,
    )  # fmt: skip


# --- sectors


@dataclass(frozen=True)
class Word:
    """Bytes that one lane, or several, asked for, within one line."""

    line: int  #: address of the line
    first: int  #: byte in it
    width: int
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class Sectors:
    """What an access to global memory moves: the bytes asked for, and the sectors and burst sections that hold them."""

    words: tuple[Word, ...]
    lines: tuple[int, ...]  #: addresses, ascending
    sectors: tuple[int, ...]  #: addresses, ascending
    bursts: tuple[int, ...]  #: addresses, ascending
    used_bytes: int  #: distinct

    def used(self, moved_bytes: int) -> str:
        return f"{100 * self.used_bytes / moved_bytes:.0f} % used" if moved_bytes else "none used"


def sectors_of(access: Access, line_bytes: int, sector_bytes: int, burst_bytes: int) -> Sectors:
    """The sectors and burst sections that an access touches. Accesses are aligned, so a lane's bytes lie in one."""
    lanes_at: dict[int, list[int]] = {}
    for lane, address in zip(access.lanes.tolist(), access.addresses.tolist(), strict=True):
        lanes_at.setdefault(address, []).append(lane)
    words = tuple(
        Word(address // line_bytes * line_bytes, address % line_bytes, access.width, tuple(lanes))
        for address, lanes in sorted(lanes_at.items())
    )

    def units(size: int) -> tuple[int, ...]:
        return tuple(sorted({address // size * size for address in lanes_at}))

    used = np.unique(np.add.outer(np.array(list(lanes_at), np.int64), np.arange(access.width)))
    return Sectors(words, units(line_bytes), units(sector_bytes), units(burst_bytes), used.size)


def burst_section(profile: Profile, kind: str) -> int:
    """Bytes that DRAM moves as one for a sector of such an access: a load's miss may fetch more than its sector."""
    least = max(profile.dram.burst_bytes, profile.l2.sector_bytes)
    return least if kind == "global_st" else max(least, profile.l2.fetch_bytes)


def draw_sectors(
    report: Report,
    *,
    line: int | None = None,
    pc: int | None = None,
    block: int | None = None,
    warp: int | None = None,
    nth: int = 0,
) -> Figure:
    """Which bytes of global memory the lanes of one load or store touch, and what is moved for them.

    How to read it: a row is a line of L1 (128 bytes), divided into sectors (32 bytes, what L1 and L2
    exchange) and burst sections (framed; what DRAM moves as one). Blue bytes were asked for, with
    the lane's number in them, or how many lanes share them; orange ones came along in the same
    sector and were wasted; yellow ones DRAM moves besides, if the access misses in L2. Much orange
    means that neighbouring lanes do not read neighbouring bytes.

    `line` (of the source) or `pc` choose the instruction, without them it is the one that wasted
    most sectors; `block` and `warp` who executed it, `nth` which time. The launch must have been
    simulated with `timeline=`. Raises `TimelineError` without, `ValueError` for no such access.
    """
    access = choose_access(report, GLOBAL_KINDS, line=line, pc=pc, block=block, warp=warp, nth=nth)
    profile = report.profile
    line_bytes, sector, burst = profile.l1.line_bytes, profile.l1.sector_bytes, burst_section(profile, access.kind)
    touched = sectors_of(access, line_bytes, sector, burst)
    shown = touched.lines[:LINES_SHOWN]
    figure = new_figure(1.5 + 0.23 * len(shown))
    axes = figure.subplots()
    row = {address: k for k, address in enumerate(shown)}
    for size, units, color in (
        (line_bytes, touched.lines, PALE),
        (burst, touched.bursts, YELLOW),
        (sector, touched.sectors, ORANGE),
    ):
        for address in units:
            if address // line_bytes * line_bytes in row:
                y = row[address // line_bytes * line_bytes]
                axes.barh(y, size, left=address % line_bytes, height=0.8, color=color, linewidth=0)
    for word in touched.words:
        if word.line in row:
            _draw_word(axes, word, row[word.line])
    _frame_sections(axes, len(shown), line_bytes, sector, burst)
    axes.set_yticks(range(len(shown)), [_place(report, address) for address in shown], fontsize=8, family="monospace")
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlabel("byte of the line", fontsize=9)
    moved, from_dram = sector * len(touched.sectors), burst * len(touched.bursts)
    note = (
        f"{access.asked} for {counted(touched.used_bytes, 'byte')}:  "
        f"{counted(len(touched.sectors), 'sector')} = {counted(moved, 'byte')}, {touched.used(moved)};  "
        f"{counted(len(touched.bursts), 'burst section')} = {counted(from_dram, 'byte')}, {touched.used(from_dram)}"
    )
    more = len(touched.lines) - len(shown)
    headline(figure, access.title, note + (f".  {counted(more, 'line')} more not shown" if more else ""))
    legend = {"asked for": BLUE, "wasted": ORANGE, "not moved": PALE}
    if burst > sector:
        legend |= {"moved by DRAM as well": YELLOW}
    draw_legend(figure, legend)
    return figure


def _draw_word(axes: Axes, word: Word, y: int) -> None:
    axes.barh(y, word.width, left=word.first, height=0.8, color=BLUE, edgecolor="white", linewidth=0.5)
    if word.width >= 4:
        _name_lanes(axes, word.first + word.width / 2, y, word.lanes, "white")


def _name_lanes(axes: Axes, x: float, y: float, lanes: tuple[int, ...], color: str) -> None:
    """The lane's number, or how many there are."""
    text = str(lanes[0]) if len(lanes) == 1 else f"×{len(lanes)}"
    axes.text(x, y, text, ha="center", va="center", color=color, fontsize=7)


def _frame_sections(axes: Axes, rows: int, line_bytes: int, sector: int, burst: int) -> None:
    """Lines between sectors, and frames round burst sections."""
    axes.set_xlim(-1, line_bytes + 1)
    axes.set_xticks(range(0, line_bytes + 1, sector))
    axes.tick_params(axis="x", labelsize=8)
    for y in range(rows):
        for left in range(0, line_bytes, burst):
            axes.barh(y, burst, left=left, height=0.8, fill=False, edgecolor="black", linewidth=0.9)
    for x in range(sector, line_bytes, sector):
        axes.axvline(x, color="white", linewidth=1.2, zorder=1.5)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def _place(report: Report, address: int) -> str:
    """The array element at an address, or the address; of a line that begins before an array, the array's name."""
    for name, place in report.recorded.arrays.items():
        if place.address <= address < place.address + place.nbytes:
            return f"{name}[{(address - place.address) // place.itemsize:,}]"
    return f"{address:#x}"


# --- banks


@dataclass(frozen=True)
class Unit:
    """A word (or 8 or 16 aligned bytes) of shared memory in one pass: its first bank, and the lanes that it serves."""

    which_pass: int
    bank: int
    banks: int
    lanes: tuple[int, ...]
    address: int


@dataclass(frozen=True)
class Passes:
    """The passes of a shared-memory access. `ideal` is how many as many distinct words need at least."""

    units: tuple[Unit, ...]
    passes: int
    ideal: int

    @property
    def conflicts(self) -> int:
        """Bank conflicts: passes beyond those."""
        return self.passes - self.ideal


def _groups(access: Access) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """Lanes whose passes are their own, with the bytes of each: docs/model/core.md, Memory instructions."""
    if access.kind in ("ldsm", "stsm"):
        for k in range(access.width):  # so many matrices
            yield MATRIX_ROW_BYTES, access.lanes // MATRIX_LANES == k
    elif access.width == 16:
        for half in (0, 1):
            yield 16, access.lanes // (WARP_SIZE // 2) == half
    else:
        yield max(access.width, 4), np.ones(len(access.lanes), bool)


def passes_of(access: Access, banks: int, bank_bytes: int) -> Passes:
    """The passes of an access over the banks.

    In a pass each bank serves one word to any number of lanes; a bank's further words take
    further passes, in the order of the lanes that ask first.
    """
    units: list[Unit] = []
    first = ideal = 0
    for size, members in _groups(access):
        lanes_of: dict[int, list[int]] = {}
        for lane, address in zip(access.lanes[members].tolist(), access.addresses[members].tolist(), strict=True):
            lanes_of.setdefault(address // size, []).append(lane)
        wide = size // bank_bytes
        taken: dict[int, int] = {}
        for unit, lanes in lanes_of.items():
            bank = unit * wide % banks
            k = taken.get(bank, 0)
            taken[bank] = k + 1
            units.append(Unit(first + k, bank, wide, tuple(lanes), unit * size))
        first += max(taken.values(), default=0)
        ideal += -(-len(lanes_of) * wide // banks)
    return Passes(tuple(units), first, ideal)


def draw_banks(
    report: Report,
    *,
    line: int | None = None,
    pc: int | None = None,
    block: int | None = None,
    warp: int | None = None,
    nth: int = 0,
) -> Figure:
    """Which banks of shared memory the lanes of one access ask for, pass by pass.

    How to read it: a column is a bank, a row a pass over all banks; each cell is a word that the bank
    serves in that pass, with the lane that asked for it, or how many lanes share it. Without
    conflicts all cells lie in as few rows as so many words need (blue). Rows below are bank conflicts
    (orange): several words of one bank, served one after another while other banks are idle (grey).

    Arguments as for `draw_sectors`; without `line` and `pc` it is the instruction with the most
    bank conflicts. Raises `TimelineError` without a timeline, `ValueError` for no such access.
    """
    access = choose_access(report, SHARED_KINDS, line=line, pc=pc, block=block, warp=warp, nth=nth)
    shared = report.profile.shared
    found = passes_of(access, shared.banks, shared.bank_bytes)
    figure = new_figure(1.6 + 0.23 * found.passes)
    axes = figure.subplots()
    for y in range(found.passes):
        axes.barh(y, shared.banks, left=0, height=0.86, color=PALE, linewidth=0)
    for unit in found.units:
        conflict = unit.which_pass >= found.ideal
        place: dict[str, Any] = {"left": unit.bank, "height": 0.86, "edgecolor": "white", "linewidth": 0.8}
        axes.barh(unit.which_pass, unit.banks, color=ORANGE if conflict else BLUE, **place)
        _name_lanes(axes, unit.bank + unit.banks / 2, unit.which_pass, unit.lanes, "black" if conflict else "white")
    axes.set_xlim(0, shared.banks)
    axes.set_ylim(found.passes - 0.5, -0.5)
    axes.set_xticks(np.arange(shared.banks) + 0.5, [str(k) for k in range(shared.banks)], fontsize=7)
    axes.set_yticks(range(found.passes), [str(k + 1) for k in range(found.passes)], fontsize=7)
    axes.set_xlabel("bank", fontsize=9)
    axes.set_ylabel("pass", fontsize=9)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    words = len({(unit.which_pass, unit.address) for unit in found.units})
    note = (
        f"{access.asked} for {counted(words, 'word')} of "
        f"{counted(shared.bank_bytes * found.units[0].banks, 'byte')}: {_passes(found.passes)}, "
        f"{counted(found.conflicts, 'bank conflict')}"
    )
    headline(figure, access.title, note)
    draw_legend(figure, {"as few passes as the words need": BLUE, "bank conflict": ORANGE, "idle": PALE})
    return figure


def _passes(count: int) -> str:
    return "1 pass" if count == 1 else f"{count} passes"
