"""Makes gallery.md and its pictures, at the size a notebook shows: `python docs/gallery.py`.

Each picture is what its code block draws, and what stands below is the function's own docstring.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sim
from sim import plot
from sim.plot.figure import DPI, png
from workloads import divergence, gemm, matmul, memory, shared, tensor, waves

HERE = Path(__file__).parent
IMAGES = HERE / "images" / "gallery"
NAMES = {
    "sim": sim,
    "divergence": divergence,
    "gemm": gemm,
    "matmul": matmul,
    "memory": memory,
    "shared": shared,
    "tensor": tensor,
    "waves": waves,
}


@dataclass(frozen=True)
class Entry:
    """A picture: its title, the function, and the code whose last line draws it."""

    title: str
    function: str
    code: str


TILED = 'report = sim.simulate(matmul.tiled(n=256, tile=32), gpu="h200")'
ENTRIES = (
    Entry(
        "Sectors and burst sections of a load",
        "draw_sectors",
        'report = sim.simulate(memory.strided(n=1 << 14, stride=12), gpu="h200", timeline=0)\nreport.draw_sectors()',
    ),
    Entry(
        "Banks of a shared-memory access",
        "draw_banks",
        'report = sim.simulate(shared.bank_stride(stride=4, iters=4), gpu="h200", timeline=0)\nreport.draw_banks()',
    ),
    Entry(
        "Divergence of a warp",
        "draw_divergence",
        'report = sim.simulate(divergence.trip_counts(n=64, below=16), gpu="h200", timeline=0)\n'
        "report.draw_divergence(issues=(0, 80))",
    ),
    Entry(
        "Warps of an SM",
        "draw_warps",
        'report = sim.simulate(matmul.tiled(n=256, tile=32), gpu="h200", timeline=0)\nreport.draw_warps()',
    ),
    Entry(
        "Pipeline of an SM",
        "draw_pipeline",
        'report = sim.simulate(gemm.pingpong(m=2048, n=2048, k=256), gpu="h200", timeline=0)\nreport.draw_pipeline()',
    ),
    Entry(
        "Blocks on SMs, waves and the tail",
        "draw_blocks",
        'report = sim.simulate(waves.live_values(grid=300, live=160), gpu="h200")\nreport.draw_blocks()',
    ),
    Entry("Stalls", "draw_stalls", f"{TILED}\nreport.draw_stalls()"),
    Entry(
        "Pipes",
        "draw_pipes",
        'report = sim.simulate(tensor.gemm(n=1024), gpu="a100_sxm_40gb")\nreport.draw_pipes()',
    ),
    Entry("Memory chart", "draw_memory", f"{TILED}\nreport.draw_memory()"),
    Entry(
        "Roofline",
        "draw_roofline",
        'naive = sim.simulate(matmul.naive(n=256), gpu="h200")\n'
        'tiled = sim.simulate(matmul.tiled(n=256, tile=32), gpu="h200")\n'
        'tensor_cores = sim.simulate(tensor.gemm(n=1024), gpu="h200")\n'
        "naive.draw_roofline(tiled, tensor_cores)",
    ),
    Entry("Occupancy, and what would change it", "draw_occupancy", f"{TILED}\nreport.draw_occupancy()"),
    Entry("Source", "draw_source", f"{TILED}\nreport.draw_source()"),
)
HEAD = """# Gallery

Every picture of a report is a function of `sim.plot` and a method of `Report`. In a notebook it shows itself;
`sim.plot.save_figure(figure, "picture.png")` makes a file of it. Pictures of addresses and over time need a launch that
was simulated with `timeline=` ([timeline](timeline.md)). Colours mean the same in all of them and stay distinct for
colour-blind readers.

All code below begins with

```python
import sim
import sim.plot
from workloads import divergence, gemm, matmul, memory, shared, tensor, waves
```
"""
TAIL = """
## Sawtooth

![TFLOP/s against N](images/sawtooth.png)

`tailwave sawtooth` sweeps the size of a tensor-core matrix product and draws it (`sim.plot.draw_sawtooth`).

How to read it: the speed rises with the size, and falls where one more tile opens another wave of blocks (dashed
lines), because the last wave is nearly empty then (bottom). Sizes that are no multiple of 8 lie on lower lines: their
rows are not aligned.

## Sliders

```python
sim.plot.explore(memory.strided, "draw_sectors", n=4096, stride=range(1, 33))
```

In a notebook a slider for each parameter that has several values (stride, offset, tile, block size) moves the picture;
each new setting is simulated. The extra `notebook` brings ipywidgets; without it, and in a saved notebook, the picture
is there. Any picture of a report can be explored, or a function of your own that makes one.

## Two reports

```python
before = sim.simulate(memory.transpose(n=512, method="tiled"), gpu="h200")
after = sim.simulate(memory.transpose(n=512, method="padded"), gpu="h200")
after.compare(before)
```

```text
{compared}
```

The metrics of the page that changed by 1 % or more, with a triangle where this report has more (▲) or less (▼) than the
other. In a notebook it is a table with a fold a section. It is a pandas table as well.
"""


def figure_of(entry: Entry) -> Any:
    """What the entry's code draws."""
    *lines, last = entry.code.splitlines()
    names = dict(NAMES)
    exec("\n".join(lines), names)
    return eval(last, names)


def section(entry: Entry) -> str:
    """The entry's part of the page: picture, code, and the docstring."""
    explained = inspect.getdoc(getattr(plot, entry.function))
    return (
        f"\n## {entry.title}\n\n![{entry.title}](images/gallery/{entry.function}.png)\n\n"
        f"```python\n{entry.code}\n```\n\n{explained}\n"
    )


def page() -> str:
    """gallery.md."""
    before, after = (sim.simulate(memory.transpose(n=512, method=m), gpu="h200") for m in ("tiled", "padded"))
    return HEAD + "".join(map(section, ENTRIES)) + TAIL.format(compared=repr(after.compare(before)))


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for entry in ENTRIES:
        (IMAGES / f"{entry.function}.png").write_bytes(png(figure_of(entry), DPI))
    (HERE / "gallery.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
