"""`tailwave run`: simulate one workload, or one kernel of a file, and print its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sim.cli.kernel_files import KernelOptions, is_kernel_file, launch_of
from sim.cli.options import STANDARD_OUTPUT, Detail, Gpu, Json, check_places, write
from sim.cli.workloads import complete_settings, complete_workload, list_workloads, workload_launch
from sim.launch import Launch

if TYPE_CHECKING:
    from sim.report import Report


def run(
    workload: Annotated[
        str,
        typer.Argument(
            help="module.function, such as memory.copy (see --list), or a .cu, .cubin or .sass file.",
            autocompletion=complete_workload,
        ),
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="Parameters as key=value, such as n=1024.", autocompletion=complete_settings),
    ] = None,
    gpu: Gpu = "h200",
    json: Json = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with a timeline to zoom to this file.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write a trace for ui.perfetto.dev to this file.")] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write the metrics as `ncu --csv --page raw` prints them; - prints them.")
    ] = None,
    timeline: Annotated[
        list[int] | None,
        typer.Option(help="SM to record over time for --html and --trace, which then execute all blocks. Default: 0."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare the workload's result with NumPy's.")] = False,
    detail: Detail = "auto",
    list_: Annotated[bool, typer.Option("--list", help="List the workloads and their parameters.")] = False,
    kernel: Annotated[str, typer.Option(help="Kernel of the file, such as saxpy or 'mm<32>'.")] = "",
    grid: Annotated[str, typer.Option(help="Blocks, such as 4096 or 64x64.")] = "",
    block: Annotated[str, typer.Option(help="Threads a block, such as 256 or 16x16.")] = "",
    cluster: Annotated[str, typer.Option(help="Blocks of a cluster, such as 2 or 2x1.")] = "",
    arg: Annotated[
        list[str] | None,
        typer.Option(
            help="The kernel's next argument: 5, 2.0f, u64:7; f32[1024], f32[64x64]=random, ones, arange or 0.5; a.npy."
        ),
    ] = None,
    shared: Annotated[int, typer.Option(help="Bytes of dynamic shared memory.")] = 0,
    arch: Annotated[str, typer.Option(help="Architecture to compile for; default: the GPU's.")] = "",
    define: Annotated[list[str] | None, typer.Option("-D", help="Macro for the compiler, such as N=32.")] = None,
    include: Annotated[list[str] | None, typer.Option("-I", help="Folder of header files.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Any option of NVRTC, such as --use_fast_math.")] = None,
) -> None:
    """Simulate a kernel and print the profiler's page.

    The kernel is a workload's, or one of a file of CUDA C++, of a cubin or of a listing.
    CUDA C++ needs no GPU, but the extra: pip install 'tailwave[cuda]'.

    \b
    Examples:
      tailwave run matmul.tiled n=256 tile=32 --gpu a100_sxm_40gb
      tailwave run memory.transpose n=256 method=padded --html transpose.html --trace transpose.trace.json
      tailwave run kernel.cu --kernel saxpy --grid 4096 --block 256 \\
          --arg 1048576 --arg 2.0f --arg f32[1048576]=random --arg f32[1048576]
    """
    options = [f"-D{d}" for d in define or []] + [f"-I{i}" for i in include or []] + (option or [])
    given = KernelOptions(kernel, grid, block, tuple(arg or ()), shared, arch, tuple(options), cluster)
    if list_ or not workload:
        typer.echo(list_workloads())
        return
    if check and detail == "sampled":
        raise typer.BadParameter("--check needs every block's result: use --detail full")
    if STANDARD_OUTPUT in (html, trace):
        raise typer.BadParameter("--html and --trace need the name of a file")
    check_places(json, csv, html, trace)
    if is_kernel_file(workload):
        if settings or check:
            raise typer.BadParameter(f"{workload}: key=value and --check are for workloads; use --arg")
        launch = launch_of(workload, given, gpu)
    else:
        if given != KernelOptions():
            raise typer.BadParameter(f"{workload}: launch options are for kernels of a .cu, .cubin or .sass file")
        launch = workload_launch(workload, settings or [])
    over_time = (timeline or [0]) if (html or trace) and detail != "sampled" else timeline or []
    report = simulate_checked(launch, gpu, check, detail, over_time)
    if STANDARD_OUTPUT not in (json, csv):
        typer.echo(str(report))
        if check:
            typer.echo("result: equal to NumPy's")
    write(json, report.to_json)
    write(csv, report.to_nsight_csv)
    if html is not None:
        report.to_html(html)
    if trace is not None:
        report.to_perfetto(trace)


def simulate_checked(launch: Launch, gpu: str, check: bool, detail: str, timeline: list[int]) -> Report:
    """The report; with `check`, of a launch whose result equals NumPy's."""
    from sim.device import simulate

    report = simulate(launch, gpu=gpu, detail="full" if check else detail, timeline=timeline)
    if check:
        launch.check(report)
    return report
