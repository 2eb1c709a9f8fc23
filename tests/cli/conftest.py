"""Runs the command as a user does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from sim.cli import app


@pytest.fixture
def tailwave() -> Callable[..., Result]:
    """`tailwave(*words)`: its exit code, standard output and standard error."""
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])
