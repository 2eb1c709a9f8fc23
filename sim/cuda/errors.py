"""Errors of compiling and disassembling."""

from __future__ import annotations


class CompileError(ValueError):
    """A kernel that its compiler refuses, with the compiler's messages, or an architecture that it does not know."""


class MissingToolError(ImportError):
    """A compiler or disassembler that is not installed; the message names the extra that brings it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} is not installed: pip install 'tailwave[{extra}]'")
