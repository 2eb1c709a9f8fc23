"""The error that says what is wrong with a kernel's source, and on which line."""

from __future__ import annotations


class BuildError(ValueError):
    """A kernel that cannot be built. The message begins with the file and line in the kernel."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
