"""One point of a sweep: what to simulate, and its row."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.launch import Launch
from sim.profile import Profile
from sim.sweeps.errors import SweepError
from sim.sweeps.keys import model_version

Row = dict[str, Any]
RESULT_COLUMNS = ("cycles", "tflops", "tiles", "waves", "tail_blocks", "tail_utilization")


@dataclass(frozen=True)
class Point:
    """One simulation of a sweep, in a form that travels to another process or machine."""

    workload: Callable[..., Launch]
    params: Mapping[str, Any]
    profile: Profile
    metrics: tuple[str, ...]
    detail: str
    version: str  #: `model_version()` where the sweep was asked for

    @property
    def inputs(self) -> Row:
        """The columns of the row that are known before it is simulated."""
        return {**{name: plain(value) for name, value in self.params.items()}, "gpu": self.profile.label}


def simulate_point(point: Point) -> Row:
    """Simulate one point. Its row holds plain values alone, so nothing of the simulation outlives the call.

    A failure becomes a row with its error.
    """
    start = time.perf_counter()
    try:
        if point.version != model_version():
            raise SweepError("this process has other sources of Tailwave than the sweep; install the same ones")
        return point.inputs | _results(point)
    except Exception as error:  # whatever a workload raises belongs in its row
        return failed(point, error)
    finally:
        _let_go(time.perf_counter() - start)


def _let_go(seconds: float) -> None:
    """Free the simulated device, whose parts refer to each other: a hundred megabytes that Python sees as few objects.

    What a short point made is young, and looking through that takes 1 ms; through everything, 50.
    """
    gc.collect(1 if seconds < 1 else 2)


def _results(point: Point) -> Row:
    from sim.device import simulate

    launch = point.workload(**point.params)
    report = simulate(launch, gpu=point.profile, detail=point.detail)
    return {
        "cycles": report.cycles,
        "tflops": launch.flops / report.seconds / 1e12,
        "tiles": launch.facts.get("tiles", launch.blocks),
        "waves": report.waves,
        "tail_blocks": int(report["tailwave__last_wave_blocks"]),
        "tail_utilization": report.tail_utilization,
        **{metric: plain(report[metric]) for metric in point.metrics},
        "error": "",
    }


def failed(point: Point, error: BaseException) -> Row:
    """The row of a point that has no results, with what went wrong and where."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    said = " ".join(str(error).split())
    return point.inputs | {"error": f"{type(error).__name__}: {said}{where}"}


def plain(value: Any) -> Any:
    """A value as JSON keeps it."""
    value = value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value
    if isinstance(value, tuple) and all(isinstance(part, int) for part in value):
        return "x".join(map(str, value))  # a tile, a block
    return value if isinstance(value, bool | int | float | str | None) else str(value)
