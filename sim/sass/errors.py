"""Errors of the SASS reader."""

from __future__ import annotations


class SassError(ValueError):
    """A listing that cannot be read, or an instruction in it that the simulator does not know."""


class NoKernelError(SassError):
    """A listing without kernels."""
