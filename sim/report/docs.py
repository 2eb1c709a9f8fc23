"""docs/metrics.md, made from the table of metrics: `python -m sim.report.docs > docs/metrics.md`."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from typing import Any

from sim.report.counts import Counts
from sim.report.metrics import ABSENT, METRICS
from sim.report.metrics.speed import DRAM_PARTS, L1_PARTS, L2_PARTS, SM_PARTS
from sim.report.sections import TITLES
from sim.report.verdict import RULES

INTRODUCTION = """\
# Metrics

<!-- Made by `python -m sim.report.docs`; change the tables in sim/report/metrics/ instead. -->

Every name here works as `report["name"]`, and is a row of `report.to_frame()` and a key of the JSON. Names, units and
sections are Nsight Compute's; names that begin with `tailwave__` are the model's own. A metric without a meaning for a
launch, such as the hit rate of no accesses, is NaN (null in JSON). Formulas use the names under
[Terms](#terms); names in capitals are columns of the raw counts in `sim/counters.py`.
"""


def markdown() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_sections(), *_parts(), *_terms(), *_rules(), *_absent()])


def _sections() -> Iterator[str]:
    for key, title in _ordered_titles().items():
        yield f"## {title}\n"
        yield "| Metric | Unit | Meaning |"
        yield "|---|---|---|"
        for metric in METRICS:
            if metric.section == key:
                meaning = f"{metric.meaning} *{metric.note}*" if metric.note else metric.meaning
                name = f"`{metric.name}`<br>{metric.label}"
                cells = (name, metric.unit, f"{meaning}<br>`{formula_text(metric.formula)}`")
                yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        yield ""


def _ordered_titles() -> dict[str, str]:
    """Sections in the table's order."""
    return {metric.section: TITLES[metric.section] for metric in METRICS}


def _parts() -> Iterator[str]:
    yield "## Parts of the throughputs\n"
    yield "`whole` is the time that the percentage is of: sub-core cycles for SMs, SM cycles for L1, else cycles.\n"
    yield "| Part | Percent |"
    yield "|---|---|"
    for parts in (SM_PARTS, L1_PARTS, L2_PARTS, DRAM_PARTS):
        for name, part in parts.items():
            yield f"| `{name}` | `{formula_text(part)}` |"
    yield ""


def _terms() -> Iterator[str]:
    yield "## Terms\n"
    yield "| Term | Meaning |"
    yield "|---|---|"
    for name, member in vars(Counts).items():
        about = inspect.getdoc(member)
        if name.startswith("_") or not about:
            continue
        yield f"| `{name}` | {' '.join(about.split())} |"
    yield ""


def _rules() -> Iterator[str]:
    yield "## Verdict\n"
    yield "The verdict is the finding with the highest score in the first stage with one that reaches its threshold.\n"
    yield "| Stage | Rule | Looks at | Threshold |"
    yield "|---|---|---|---|"
    for rule in RULES:
        yield f"| {rule.stage} | {rule.name} | {rule.looks_at} | {rule.threshold:g} |"
    yield ""


def _absent() -> Iterator[str]:
    yield "## Nsight metrics that the model does not give\n"
    yield "| Name | Why |"
    yield "|---|---|"
    for pattern, reason in ABSENT.items():
        yield f"| `{pattern}` | {reason} |"
    yield ""


def formula_text(formula: Callable[..., Any]) -> str:
    """A formula as its source has it, with the values that it was made with filled in."""
    text = ast.unparse(_filled(formula))
    text = re.sub(r"\b(?:Inst|Mem|Sm|Op|Pipe|Stall|c)\.", "", text)
    return text.replace("(c)", "").replace("(c, ", "(").replace(", c, ", ", ")


def _filled(formula: Callable[..., Any]) -> ast.expr:
    """A formula's expression - of a function, what it returns - with its free names' values filled in."""
    code = formula.__code__
    node = _nodes(code.co_filename)[code.co_name, code.co_firstlineno]
    if isinstance(node, ast.Lambda):
        body: ast.expr = node.body
    else:
        body = next(s.value for s in reversed(node.body) if isinstance(s, ast.Return) and s.value is not None)
    free = dict(zip(code.co_freevars, (cell.cell_contents for cell in formula.__closure__ or ()), strict=True))
    copy = ast.parse(ast.unparse(body), mode="eval").body
    return ast.fix_missing_locations(_Fill(free).visit(copy))


@cache
def _nodes(path: str) -> dict[tuple[str, int], ast.Lambda | ast.FunctionDef]:
    """Functions of a source file by name and first line."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found: dict[tuple[str, int], ast.Lambda | ast.FunctionDef] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            found["<lambda>", node.lineno] = node
        elif isinstance(node, ast.FunctionDef):
            found[node.name, node.lineno] = node
    return found


class _Fill(ast.NodeTransformer):
    """Puts values in the place of the names they are bound to."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A call of a bound lambda `(c, whole)` becomes its body."""
        part = self.values.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if part is None or part.__name__ != "<lambda>":
            self.generic_visit(node)
            return node
        whole = _Fill(self.values).visit(node.args[1])
        return _Replace("whole", whole).visit(_filled(part))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.values:
            return node
        return ast.parse(_value_text(self.values[node.id]), mode="eval").body


class _Replace(ast.NodeTransformer):
    """Puts an expression in the place of one name."""

    def __init__(self, name: str, expression: ast.expr) -> None:
        self.name = name
        self.expression = expression

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.expression if node.id == self.name else node


def _value_text(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    if callable(value):
        return value.__name__.lstrip("_")
    return repr(value)


if __name__ == "__main__":
    print(markdown(), end="")
