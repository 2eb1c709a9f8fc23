"""The console command `tailwave`: where its commands are registered and its errors become one line.

Exit codes: 0 done, 1 the work failed (a kernel's error, a wrong result, a failed point of a
sweep, a slowdown that was not allowed), 2 what was asked for cannot be (options, profiles,
launches, files), 130 stopped by Ctrl-C.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from sim.cli.compare import compare
from sim.cli.lesson import lesson
from sim.cli.profiles import occupancy, profile, profiles
from sim.cli.run import run
from sim.cli.sawtooth import sawtooth
from sim.cli.sweep import sweep
from sim.cli.validate import validate
from sim.launch import LaunchError
from sim.profile import ProfileError

USAGE_ERROR: Any = typer.BadParameter.__base__  #: of the command-line library that Typer brings


class OneLineErrors(TyperGroup):
    """Prints an error that Tailwave means to raise as one line; a bug keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; its errors become a message on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            path = error.ctx.command_path if error.ctx else "tailwave"
            message, code = f"{error.format_message()} ({path} --help tells more)", error.exit_code
        except KeyboardInterrupt as stop:
            message, code = str(stop).partition(";")[0] or "stopped", 130  # the rest is about a device that lives on
        except OSError as error:
            message, code = f"{error.filename}: {error.strerror}" if error.filename else str(error), 2
        except (LaunchError, ProfileError) as error:
            message, code = str(error), 2
        except MemoryError as error:
            message, code = str(error) or "out of memory", 2
        except Exception as error:
            if not _is_meant(error):
                raise
            message, code = str(error), _exit_code(error)
        typer.echo(f"tailwave: {message}", err=True)
        raise typer.Exit(code)


def _is_meant(error: Exception) -> bool:
    """Tailwave's own error classes, and a result that differs from NumPy's."""
    own = type(error).__module__.partition(".")[0] in ("sim", "workloads", "validation")
    return own or (isinstance(error, AssertionError) and bool(error.args))


def _exit_code(error: Exception) -> int:
    from sim.report.archive import ReportError
    from sim.sweeps import SweepError

    return 2 if isinstance(error, ReportError | SweepError) else 1


app = typer.Typer(
    cls=OneLineErrors,
    help="Tailwave simulates GPU kernels and reports what a profiler would.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (run, sweep, sawtooth, compare, profiles, profile, occupancy, lesson, validate):
    app.command()(command)
