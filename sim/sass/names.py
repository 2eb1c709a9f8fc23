"""Kernel names: the plain name and the parameters of a mangled one (Itanium C++ ABI), as far as a kernel's user needs.

Plain names leave out parameters and template arguments: `_Z5copy1PKfPfi` is `copy1`,
`_Z8mm_tiledILi32EEvPKfS1_Pfi` is `mm_tiled`, `_ZN3gpu4saxpyEifPKfPf` is `gpu::saxpy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

#: builtin types that a kernel parameter may have: mangled letter -> dtype
SCALARS: dict[str, np.dtype] = {
    letter: np.dtype(name)
    for letter, name in (
        ("b", "bool"), ("c", "int8"), ("a", "int8"), ("h", "uint8"), ("s", "int16"), ("t", "uint16"),
        ("i", "int32"), ("j", "uint32"), ("l", "int64"), ("m", "uint64"), ("x", "int64"), ("y", "uint64"),
        ("f", "float32"), ("d", "float64"),
    )
}  # fmt: skip
POINTER = "pointer"

ParameterType = np.dtype | str | None  #: a scalar's type, POINTER, or None where the name does not tell the size


class _Unknown(Exception):
    """A construct that this parser leaves alone."""


@dataclass
class _Mangled:
    """A mangled name being read."""

    text: str
    at: int = 0
    substitutions: list[ParameterType] = field(default_factory=list)

    def next_is(self, prefix: str) -> bool:
        """Whether `prefix` comes next; then it is consumed."""
        if self.text.startswith(prefix, self.at):
            self.at += len(prefix)
            return True
        return False

    def number(self) -> int:
        start = self.at
        while self.at < len(self.text) and self.text[self.at].isdigit():
            self.at += 1
        if start == self.at:
            raise _Unknown
        return int(self.text[start : self.at])

    def source_name(self) -> str:
        length = self.number()
        name = self.text[self.at : self.at + length]
        if len(name) < length:
            raise _Unknown
        self.at += length
        return name

    def name(self) -> tuple[str, bool]:
        """An encoding's name without template arguments; whether it had some."""
        parts: list[str] = []
        template = False
        if self.next_is("N"):
            while not self.next_is("E"):
                if self.next_is("I"):
                    self.template_arguments()
                    template = True
                else:
                    parts.append(self.source_name())
                    template = False
                if not self.text.startswith("E", self.at):  # each prefix is a substitution, the whole name is none
                    self.substitutions.append(None)
        else:
            self.next_is("L")
            parts.append(self.source_name())
            if self.text.startswith("I", self.at):
                self.substitutions.append(None)  # the template's name
                self.at += 1
                self.template_arguments()
                template = True
        return "::".join("(anonymous)" if p.startswith("_GLOBAL__N") else p for p in parts), template

    def template_arguments(self) -> None:
        while not self.next_is("E"):
            if self.next_is("L"):
                self.type()
                end = self.text.index("E", self.at)
                self.at = end + 1
            elif self.next_is("J"):
                self.template_arguments()
            else:
                self.type()

    def sequence_id(self) -> ParameterType:
        """What S_, S0_, ... stands for."""
        end = self.text.index("_", self.at)
        digits = self.text[self.at : end]
        self.at = end + 1
        index = int(digits, 36) + 1 if digits else 0
        if index >= len(self.substitutions):
            raise _Unknown
        return self.substitutions[index]

    def type(self) -> ParameterType:
        """One type; None when it is a class passed by value."""
        text = self.text
        if self.at >= len(text):
            raise _Unknown
        letter = text[self.at]
        if letter in SCALARS:
            self.at += 1
            return SCALARS[letter]
        if letter == "v":
            self.at += 1
            return None
        if letter in "PRO":
            self.at += 1
            self.type()
            self.substitutions.append(POINTER)
            return POINTER
        if letter in "KVr":
            while self.at < len(text) and text[self.at] in "KVr":
                self.at += 1
            inner = self.type()
            self.substitutions.append(inner)
            return inner
        if letter == "S":
            self.at += 1
            if text.startswith("t", self.at):
                raise _Unknown
            found = self.sequence_id()
            if self.next_is("I"):
                self.template_arguments()
                self.substitutions.append(None)
                return None
            return found
        if letter == "T":
            raise _Unknown
        if letter.isdigit() or letter == "N":
            self.name()
            self.substitutions.append(None)
            return None
        raise _Unknown


def plain_name(mangled: str) -> str:
    """The name as it is written in the source, with namespaces, without template arguments and parameters."""
    return _parsed(mangled)[0]


def parameter_types(mangled: str) -> tuple[ParameterType, ...] | None:
    """The types of a kernel's parameters, or None when its name does not tell them (as `extern "C"` ones do not)."""
    return _parsed(mangled)[1]


def _parsed(mangled: str) -> tuple[str, tuple[ParameterType, ...] | None]:
    if not mangled.startswith("_Z"):
        return mangled, None
    reader = _Mangled(mangled, 2)
    try:
        name, template = reader.name()
    except (_Unknown, ValueError):
        return mangled, None
    try:
        if template:
            reader.type()  # templates carry their return type
        types: list[ParameterType] = []
        while reader.at < len(mangled) and mangled[reader.at] not in ".$":
            if reader.next_is("v"):
                continue
            types.append(reader.type())
        return name, tuple(types)
    except (_Unknown, ValueError):
        return name, None
