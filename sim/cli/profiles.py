"""`tailwave profiles`, `tailwave profile NAME` and `tailwave occupancy`: what the GPUs are and what fits on them."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sim.cli.options import STANDARD_OUTPUT, Gpu, Json, check_places, complete_gpu, write
from sim.profile import CONFIDENCES, Profile, load_profile, names

if TYPE_CHECKING:
    from rich.table import Table

    from sim.occupancy import Occupancy

WIDTH_OF_A_PIPE = 160  #: columns to use when the output is no terminal


def profiles(json: Json = None) -> None:
    """List the GPUs there are profiles of.

    \b
    Examples:
      tailwave profiles
      tailwave profiles --json -
    """
    check_places(json)
    write(json, lambda: dumped([_summary(load_profile(name)) for name in names()]))
    if json == STANDARD_OUTPUT:
        return
    table = _table("name", "GPU", "architecture", "SMs", "MHz", "L2", "DRAM", "GB/s")
    for name in names():
        p = load_profile(name)
        table.add_row(
            name,
            p.gpu.name,
            f"{p.gpu.architecture} {p.gpu.compute_capability}",
            str(p.gpu.sm_count),
            f"{p.gpu.clock_mhz:g}",
            _size(p.l2.bytes),
            f"{_size(p.dram.capacity_bytes)} {p.dram.kind}",
            f"{p.dram.peak_gbytes_per_s:g}",
        )
    _print(table)


def _summary(p: Profile) -> dict[str, Any]:
    """What `profiles` shows of one, with units in the names."""
    return {
        "name": p.name,
        "gpu": p.gpu.name,
        "architecture": p.gpu.architecture,
        "compute_capability": p.gpu.compute_capability,
        "sm_count": p.gpu.sm_count,
        "clock_mhz": p.gpu.clock_mhz,
        "l2_bytes": p.l2.bytes,
        "dram_bytes": p.dram.capacity_bytes,
        "dram_kind": p.dram.kind,
        "dram_gbytes_per_s": p.dram.peak_gbytes_per_s,
    }


def profile(
    name: Annotated[
        str,
        typer.Argument(help="Profile name, such as h200, or a TOML file.", autocompletion=complete_gpu),
    ],
    section: Annotated[str, typer.Option(help="Print only this section, such as l2 or timing.fp32.")] = "",
    json: Json = None,
) -> None:
    """Print a GPU's numbers with units and sources.

    \b
    Examples:
      tailwave profile h200 --section l2
      tailwave profile t4 --json t4.json
    """
    check_places(json)
    p = load_profile(name)
    prefix = f"{section}." if section else ""
    shown = {key: quantity for key, quantity in p.quantities.items() if key.startswith(prefix)}
    if not shown:
        sections = sorted({key.rpartition(".")[0] for key in p.quantities} | {"timing"})
        raise typer.BadParameter(f"no section {section!r}; sections: {', '.join(sections)}")
    write(json, lambda: dumped({key: asdict(quantity) for key, quantity in shown.items()}))
    if json == STANDARD_OUTPUT:
        return
    table = _table("key", "value", "unit", "", "source")
    last = ""
    for key, quantity in shown.items():
        group = key.partition(".")[0]
        if last not in ("", group):
            table.add_section()
        last = group
        table.add_row(key, _value(quantity.value), quantity.unit, quantity.confidence, quantity.source)
    typer.echo(f"{p.label}: {p.gpu.name}")
    _print(table)
    typer.echo("; ".join(f"{letter}: {meaning}" for letter, meaning in CONFIDENCES.items()))
    typer.echo("the sources in full: hardware_profiles/SOURCES.md")


def occupancy(
    threads: Annotated[int, typer.Option(help="Threads a block.")],
    registers: Annotated[int, typer.Option(min=1, help="Registers a thread.")] = 32,
    shared: Annotated[int, typer.Option(help="Bytes of shared memory a block, static and dynamic.")] = 0,
    carveout: Annotated[int | None, typer.Option(help="Carve-out in KiB; default: the driver's choice.")] = None,
    blocks: Annotated[int | None, typer.Option(min=1, help="Blocks of the grid: print waves as well.")] = None,
    gpu: Gpu = "h200",
    json: Json = None,
) -> None:
    """Print how many blocks fit on an SM and what limits them.

    The exit code is 1 when no block fits.

    \b
    Example:
      tailwave occupancy --threads 256 --registers 64 --shared 49152 --blocks 1000 --gpu a100_sxm_40gb
    """
    from sim.occupancy import occupancy as occupancy_of

    check_places(json)
    p = load_profile(gpu)
    o = occupancy_of(p, threads, registers, shared, carveout_kib=carveout)
    write(json, lambda: dumped(asdict(o) | {"gpu": p.label, "fraction": o.fraction, "limiters": list(o.limiters)}))
    if json != STANDARD_OUTPUT:
        _show_occupancy(p, o, blocks)
    if o.blocks_per_sm == 0:
        typer.echo("no block fits: the launch would fail (cudaErrorLaunchOutOfResources)", err=True)
        raise typer.Exit(1)


def _show_occupancy(p: Profile, o: Occupancy, blocks: int | None) -> None:
    from sim.report.formatting import counted

    limits = {
        "warps": o.limit_warps,
        "registers": o.limit_registers,
        "shared memory": o.limit_shared,
        "blocks": o.limit_blocks,
    }
    typer.echo(f"{p.gpu.name}: {o.blocks_per_sm} blocks, {o.warps_per_sm} of {o.max_warps_per_sm} warps an SM")
    typer.echo(f"theoretical occupancy {o.fraction:.1%}, limited by {', '.join(o.limiters)}")
    typer.echo("blocks by limit: " + ", ".join(f"{name} {limit}" for name, limit in limits.items()))
    typer.echo(
        f"a block takes {counted(o.warps_per_block, 'warp')}, {o.registers_per_thread} registers a thread, "
        f"{o.shared_per_block_bytes} bytes of shared memory; carve-out {o.shared_carveout_bytes // 1024} KiB"
    )
    if blocks is not None:
        typer.echo(_waves(p, o.blocks_per_sm, blocks))


def _waves(p: Profile, blocks_per_sm: int, blocks: int) -> str:
    wave = blocks_per_sm * p.gpu.sm_count
    if wave == 0:
        return f"{blocks} blocks: none can start"
    tail = blocks % wave
    text = f"{blocks} blocks are {blocks / wave:.2f} waves of {wave}"
    return f"{text}; the last wave has {tail} blocks ({tail / wave:.1%})" if tail else f"{text}, no tail"


def dumped(value: Any) -> str:
    """JSON to read, with a line an entry."""
    return json_text.dumps(value, indent=1) + "\n"


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    numbers = ("SMs", "MHz", "L2", "GB/s", "value")
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH_OF_A_PIPE)
    console.print(table)


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _size(size_bytes: int) -> str:
    """In the largest binary unit that leaves a number of at least 1."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.4g} {unit}"
