"""`tailwave sawtooth`: sweep the tensor-core matrix product over sizes and draw what waves and alignment do to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sim.cli.options import STANDARD_OUTPUT, Gpu, Json, Processes, check_places, write
from sim.report.formatting import counted

if TYPE_CHECKING:
    import pandas as pd

CLIFF = (1792, 1793)  #: on 108 SMs with 256x128 tiles: the last size of one wave, and the first of two
ALIGNED = (*range(256, 768, 128), *range(768, 2305, 64))
MISALIGNED = (612, 1124, 1380, 678, 1190, 1446, 545, 1057, 1313)  #: three multiples of 4, of 2 only, odd
FOOT = 1800  #: the first multiple of 8 past the cliff
DEFAULT_SIZES = tuple(sorted({*ALIGNED, *MISALIGNED, *CLIFF, FOOT}))
DEFAULT_RANGE = (256, 2304, 64)  #: what --from, --to and --step are where only some of them are given
FORMATS = (".png", ".svg", ".pdf")
DEFAULT_GPU = "a100_sxm_40gb"


def parse_tile(text: str) -> tuple[int, int] | tuple[int, int, int]:
    """`"256x128"` or `"256x128x32"`: rows and columns of the output, and the depth of a slice."""
    if not re.fullmatch(r"\d+x\d+(x\d+)?", text):
        raise typer.BadParameter(f"{text!r}: write rows x columns, such as 256x128, or with the depth, 256x128x32")
    rows, columns, *depth = (int(part) for part in text.split("x"))
    return (rows, columns, depth[0]) if depth else (rows, columns)


def choose_sizes(sizes: str | None, first: int | None, last: int | None, step: int | None) -> list[int]:
    """The sizes asked for: a list, or a range; the default sizes when neither is given."""
    if sizes is not None and (first, last, step) != (None, None, None):
        raise typer.BadParameter("give --sizes, or --from, --to and --step, not both")
    if sizes is not None:
        try:
            chosen = sorted({int(part) for part in sizes.replace(",", " ").split()})
        except ValueError:
            raise typer.BadParameter(f"--sizes {sizes!r}: write whole numbers, such as 1792,1793") from None
    elif (first, last, step) == (None, None, None):
        return list(DEFAULT_SIZES)
    else:
        first, last, step = (
            given if given is not None else usual
            for given, usual in zip((first, last, step), DEFAULT_RANGE, strict=True)
        )
        if step < 1:
            raise typer.BadParameter(f"--step {step}: must be at least 1")
        chosen = list(range(first, last + 1, step))
    if not chosen or chosen[0] < 1:
        raise typer.BadParameter("no sizes to simulate: sizes must be positive, and --from at most --to")
    return chosen


def sawtooth(
    gpu: Gpu = DEFAULT_GPU,
    tile: Annotated[str, typer.Option(help="Rows x columns of C that a block computes, e.g. 256x128.")] = "256x128",
    sizes: Annotated[str | None, typer.Option(help="Sizes N, separated by commas.")] = None,
    first: Annotated[int | None, typer.Option("--from", help="First size of a range; 256 if not given.")] = None,
    last: Annotated[int | None, typer.Option("--to", help="Last size of a range; 2304 if not given.")] = None,
    step: Annotated[int | None, typer.Option(help="Step of a range; 64 if not given.")] = None,
    dtype: Annotated[str, typer.Option(help="bf16, f16 or tf32.")] = "bf16",
    output: Annotated[Path | None, typer.Option(help="Picture to write (PNG, SVG or PDF).")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Also write the points as CSV, beside the picture.")] = False,
    json: Json = None,
    processes: Processes = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Simulate again what an earlier run has finished.")] = False,
) -> None:
    """Draw what tiles and waves do to a matrix product.

    It is simulated at many sizes; the picture shows TFLOP/s, tiles, waves and the tail.
    Finished points are kept beside the picture, so a stopped run goes on where it was.

    \b
    Example:
      tailwave sawtooth --gpu h200 --tile 128x128 --from 512 --to 2048 --step 256 --csv
    """
    from sim.profile import load_profile
    from sim.sweeps import SweepStopped, sweep
    from workloads.tensor import gemm

    shape = parse_tile(tile)
    chosen = choose_sizes(sizes, first, last, step)
    try:
        gemm(chosen[0], tile=shape, dtype=dtype)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    profile = load_profile(gpu)
    picture = output or Path(f"sawtooth_{profile.name}_{tile}_{dtype}.png")
    if picture.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"--output {picture}: give a file name that ends in {', '.join(FORMATS)}")
    picture.parent.mkdir(parents=True, exist_ok=True)
    check_places(picture, json)
    store = picture.with_suffix(".jsonl")
    if fresh:
        store.unlink(missing_ok=True)
    try:
        grid: dict[str, list[Any]] = {"n": chosen, "tile": [shape], "dtype": [dtype]}
        frame = sweep(gemm, grid, gpu, processes=processes, store=store, detail="full")
    except SweepStopped as stopped:
        typer.echo(str(stopped), err=True)
        raise typer.Exit(130) from None
    failed = frame[frame["error"] != ""]
    for _, row in failed.iterrows():
        typer.echo(f"N={row['n']} failed: {row['error']}", err=True)
    done = frame[frame["error"] == ""]
    if done.empty:
        raise typer.Exit(1)
    if csv:
        write(picture.with_suffix(".csv"), lambda: done.to_csv(index=False, lineterminator="\n"))
    title = f"Tensor-core matrix product, {dtype}, {tile} tiles, {profile.gpu.name}"
    _draw(done, (shape[0], shape[1]), title, picture)
    write(json, lambda: done.to_json(orient="records", indent=1) + "\n")
    if json != STANDARD_OUTPUT:
        typer.echo(summary(done))
        typer.echo(str(picture))
    if len(failed):
        raise typer.Exit(1)


def _draw(frame: pd.DataFrame, tile: tuple[int, int], title: str, picture: Path) -> Path:
    from sim.plot.figure import save_figure
    from sim.plot.sawtooth import draw_sawtooth

    return save_figure(draw_sawtooth(frame, tile, title), picture)


def summary(frame: pd.DataFrame) -> str:
    """A line for each size on either side of a step to another wave, and for the fastest size."""
    points = frame.sort_values("n").to_dict("records")
    edges = [k for k in range(1, len(points)) if points[k]["waves"] != points[k - 1]["waves"]]
    fastest = max(range(len(points)), key=lambda k: points[k]["tflops"])
    shown = sorted({fastest, *edges, *(k - 1 for k in edges)})
    return "\n".join(_line(points[k], "  fastest" if k == fastest else "") for k in shown)


def _line(point: dict[str, Any], remark: str) -> str:
    blocks = round(point["tail_blocks"] / point["tail_utilization"])
    return (
        f"N={point['n']}: {counted(point['tiles'], 'tile')}, {counted(point['waves'], 'wave')}, "
        f"last wave {point['tail_blocks']} of {blocks} blocks ({point['tail_utilization']:.1%}), "
        f"{point['cycles']:,} cycles, {point['tflops']:.1f} TFLOP/s{remark}"
    )
