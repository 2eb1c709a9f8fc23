"""Sliders: a picture of a workload that follows its parameters. The only part of `sim.plot` that simulates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sim import plot
from sim.device import simulate
from sim.launch import Launch
from sim.profile import Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INSTALL = "pip install 'tailwave[notebook]' brings the sliders"


class Explorer:
    """A picture with a slider for each parameter that has several values; `explore` makes it.

    In a notebook with ipywidgets the sliders move. Anywhere else, and in a saved notebook, it is
    the picture of the values that were set last.
    """

    def __init__(
        self,
        workload: Callable[..., Launch],
        draw: Callable[..., Figure],
        gpu: str | Profile,
        choices: dict[str, list[Any]],
        fixed: dict[str, Any],
    ) -> None:
        self._workload, self._draw, self._gpu, self._fixed = workload, draw, gpu, fixed
        self.choices = choices
        self.values = {name: options[0] for name, options in choices.items()}  #: as the sliders stand
        self._drawn: dict[tuple[Any, ...], Figure] = {}

    def set(self, **values: Any) -> Explorer:
        """Put sliders on other values. Raises `ValueError` for a value that a slider does not have."""
        for name, value in values.items():
            if value not in self.choices.get(name, ()):
                have = ", ".join(f"{n}={options}" for n, options in self.choices.items())
                raise ValueError(f"{name}={value!r}: no slider has that; there are {have}")
        self.values |= values
        return self

    def figure(self) -> Figure:
        """The picture where the sliders stand; simulated once for each setting."""
        setting = tuple(self.values.values())
        if setting not in self._drawn:
            launch = self._workload(**self._fixed, **self.values)
            self._drawn[setting] = self._draw(simulate(launch, gpu=self._gpu, timeline=0))
        return self._drawn[setting]

    def sliders(self, show: Callable[[Figure], Any]) -> Any:
        """The sliders, an ipywidgets box; each move calls `show` with the new picture.

        An error of the workload or the launch is told below them. Raises `ModuleNotFoundError` without ipywidgets.
        """
        import ipywidgets

        problem = ipywidgets.Label()
        sliders = [
            ipywidgets.SelectionSlider(
                options=options, value=self.values[name], description=name, continuous_update=False
            )
            for name, options in self.choices.items()
        ]

        def follow(_: Any) -> None:
            self.values = {slider.description: slider.value for slider in sliders}
            try:
                show(self.figure())
            except (ValueError, RuntimeError) as error:  # the picture before it stays
                problem.value = str(error)
            else:
                problem.value = ""

        for slider in sliders:
            slider.observe(follow, names="value")
        return ipywidgets.VBox([*sliders, problem])

    def __repr__(self) -> str:
        return f"<Explorer of {self._workload.__name__} at {', '.join(f'{n}={v}' for n, v in self.values.items())}>"

    def _ipython_display_(self) -> None:
        """Sliders and the picture as outputs of their own, so that the picture is there where sliders are not."""
        from IPython.display import display

        try:
            display(self.sliders(lambda figure: shown.update(figure)))
        except ModuleNotFoundError:
            print(INSTALL)
        shown = display(self.figure(), display_id=True)


def explore(
    workload: Callable[..., Launch],
    draw: str | Callable[..., Figure] = "draw_sectors",
    gpu: str | Profile = "h200",
    **parameters: Any,
) -> Explorer:
    """A picture of a workload, with sliders for its parameters: stride, offset, tile, block size, whatever it takes.

    `explore(memory.strided, "draw_sectors", n=4096, stride=range(1, 33))` shows which sectors a
    warp's loads touch and has a slider for the stride; `n` stays. How to read it: as the picture that `draw`
    names, one of those of a report, or any function that makes a figure of one. Each new setting is
    simulated, so keep the workload small.

    Without ipywidgets (extra `notebook`) it is the picture of the first values; `.set(stride=8)` and
    `.figure()` do without. Raises `ValueError` if no parameter has several values, or for an
    unknown picture.
    """
    if isinstance(draw, str) and draw not in plot.OF_REPORT:
        raise ValueError(f"{draw!r} is no picture of a report; use {', '.join(plot.OF_REPORT)}")
    chosen: Callable[..., Figure] = getattr(plot, draw) if isinstance(draw, str) else draw
    several = {n: list(v) for n, v in parameters.items() if isinstance(v, Iterable) and not isinstance(v, str)}
    fixed = {n: v for n, v in parameters.items() if n not in several}
    if not several or not all(several.values()):
        raise ValueError("explore needs a parameter with several values, such as stride=range(1, 33)")
    return Explorer(workload, chosen, gpu, several, fixed)
