"""`tailwave run`: simulate one workload, or one kernel of a file, and print its report."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sim.cli.kernel_files import KernelOptions, is_kernel_file, launch_of
from sim.files import check_place
from sim.launch import Launch


def find_workloads() -> dict[str, Callable[..., Launch]]:
    """Every workload by `module.function`: the public functions of `workloads` that return a Launch."""
    import workloads

    found: dict[str, Callable[..., Launch]] = {}
    for module_info in pkgutil.iter_modules(workloads.__path__):
        module = importlib.import_module(f"workloads.{module_info.name}")
        for name, function in vars(module).items():
            public = inspect.isfunction(function) and not name.startswith("_")
            if public and function.__annotations__.get("return") in ("Launch", Launch):
                home = function.__module__ == module.__name__ or name in getattr(module, "__all__", ())
                if home:
                    found[f"{module_info.name}.{name}"] = function
    return dict(sorted(found.items()))


def parse_value(text: str) -> Any:
    """A parameter's value: a Python literal, a tile such as `256x128`, or else a word."""
    if re.fullmatch(r"\d+(x\d+)+", text):
        return tuple(int(part) for part in text.split("x"))
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text.lower(), text)


def parse_settings(settings: list[str], workload: Callable[..., Launch], name: str) -> dict[str, Any]:
    """`key=value` words as arguments of the workload; an unknown or missing key is refused with the signature."""
    values = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if key in values:
            raise typer.BadParameter(f"{key} is given twice")
        if not equals:
            raise typer.BadParameter(f"{setting!r}: write parameters as key=value, such as n=1024")
        values[key] = parse_value(text)
    try:
        inspect.signature(workload).bind(**values)
    except TypeError as error:
        raise typer.BadParameter(f"{error}; parameters: {name}{signature(workload)}") from None
    return values


def signature(workload: Callable[..., Launch]) -> str:
    """The parameters with their defaults, without types."""
    parameters = inspect.signature(workload).parameters.values()
    return "(" + ", ".join(str(p.replace(annotation=p.empty)) for p in parameters) + ")"


def list_workloads() -> str:
    """A line a workload: name, parameters, what it does."""
    lines = []
    for name, workload in find_workloads().items():
        first_line = (inspect.getdoc(workload) or "").partition("\n")[0]
        lines.append(f"{name}{signature(workload)}\n    {first_line}")
    return "\n".join(lines)


def run(
    workload: Annotated[
        str, typer.Argument(help="module.function, such as memory.copy (see --list), or a .cu, .cubin or .sass file.")
    ] = "",
    settings: Annotated[list[str] | None, typer.Argument(help="Parameters as key=value, such as n=1024.")] = None,
    gpu: Annotated[str, typer.Option(help="Profile name or TOML file.")] = "h200",
    json: Annotated[Path | None, typer.Option(help="Also write the report as JSON to this file.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare the workload's result with NumPy's.")] = False,
    detail: Annotated[
        str, typer.Option(help="auto, full, or sampled: skip blocks once their rate is steady.")
    ] = "auto",
    list_: Annotated[bool, typer.Option("--list", help="List the workloads and their parameters.")] = False,
    kernel: Annotated[str, typer.Option(help="Kernel of the file, such as saxpy or 'mm<32>'.")] = "",
    grid: Annotated[str, typer.Option(help="Blocks, such as 4096 or 64x64.")] = "",
    block: Annotated[str, typer.Option(help="Threads a block, such as 256 or 16x16.")] = "",
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
    """Simulate one workload, or one kernel of a file, and print the profiler's page.

    \b
    tailwave run matmul.tiled n=512 tile=32 --gpu a100_sxm_40gb
    tailwave run kernel.cu --kernel saxpy --grid 4096 --block 256 \\
        --arg 1048576 --arg 2.0f --arg f32[1048576]=random --arg f32[1048576]

    CUDA C++ needs no GPU, but the extra: pip install 'tailwave[cuda]'.
    """
    from sim.sampling import DETAILS

    options = [f"-D{d}" for d in define or []] + [f"-I{i}" for i in include or []] + (option or [])
    given = KernelOptions(kernel, grid, block, tuple(arg or ()), shared, arch, tuple(options))
    if list_ or not workload:
        typer.echo(list_workloads())
        return
    if detail not in DETAILS:
        raise typer.BadParameter(f"--detail {detail}: use {', '.join(DETAILS)}")
    if check and detail == "sampled":
        raise typer.BadParameter("--check needs every block's result: use --detail full")
    if json is not None:
        check_place(json)
    if is_kernel_file(workload):
        if settings or check:
            raise typer.BadParameter(f"{workload}: key=value and --check are for workloads; use --arg")
        launch = launch_of(workload, given, gpu)
    else:
        if given != KernelOptions():
            raise typer.BadParameter(f"{workload}: launch options are for kernels of a .cu, .cubin or .sass file")
        launch = workload_launch(workload, settings or [])
    show(launch, gpu, json, check, detail)


def workload_launch(name: str, settings: list[str]) -> Launch:
    """The launch of a workload. Raises `typer.BadParameter` for a name or parameters that are not known."""
    known = find_workloads()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {', '.join(close)}?" if close else "`tailwave run --list` lists them"
        raise typer.BadParameter(f"no workload {name!r}: {hint}")
    arguments = parse_settings(settings, known[name], name)
    try:
        return known[name](**arguments)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(f"{name}: {error}") from None


def show(launch: Launch, gpu: str, json: Path | None, check: bool, detail: str) -> None:
    """Simulate, print the page, write the file, compare."""
    from sim.device import simulate

    report = simulate(launch, gpu=gpu, detail="full" if check else detail)
    typer.echo(str(report))
    if json is not None:
        report.to_json(json)
    if check:
        launch.check(report)
        typer.echo("result: equal to NumPy's")
