"""Checks of a kernel's source that running it once cannot make.

A traced block (`with k.if_(...)`, `for i in k.range_(...)`, ...) runs once in
Python whatever the threads do later, so a plain name that it rebinds would hold
the block's value even for threads that never came there. Such a rebinding, and
leaving a traced block by break, continue or return, is an error here.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sim.builder.errors import BuildError

_WITH = frozenset(("if_", "elif_", "else_", "while_"))
_PLAIN = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp)


@dataclass(frozen=True, slots=True)
class Event:
    """A name is read (`load`), bound (`store`) or changed in place (`change`), in nested traced blocks `path`."""

    kind: str
    name: str
    line: int
    path: tuple[int, ...]
    plain: bool = False  # bound to what cannot be a variable


def check_source(function: Callable[..., Any], view: str) -> None:
    """Raises `BuildError` naming the line. `view` is the name of the kernel's first parameter."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError) as error:
        raise BuildError(
            f"the source of kernel {getattr(function, '__name__', function)} is not available ({error}); "
            "define it in a file or a notebook cell"
        ) from None
    where = f"{_file(function)}:"
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise BuildError("a kernel is a function: @sim.kernel above a def", f"{where}{first}")
    reader = _Reader(view)
    try:
        reader.function(node)
        _check_rebinding(reader)
    except _Problem as problem:
        raise BuildError(problem.message, f"{where}{first + problem.line - 1}") from None


def _file(function: Callable[..., Any]) -> str:
    from sim.builder.trace import _short

    return _short(inspect.getsourcefile(function) or "<unknown>")


class _Problem(Exception):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Reader(ast.NodeVisitor):
    """Lists a function's events in the order in which they happen."""

    def __init__(self, view: str) -> None:
        self.view = view
        self.events: list[Event] = []
        self.path: tuple[int, ...] = ()
        self.loops: set[int] = set()  # traced blocks that are loops
        self.python_loops = 0  # Python loops inside the innermost traced block
        self._blocks = 0

    def function(self, node: ast.FunctionDef) -> None:
        for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self._add("store", arg.arg, node.lineno)
        for statement in node.body:
            self.visit(statement)

    def _add(self, kind: str, name: str, line: int, plain: bool = False) -> None:
        self.events.append(Event(kind, name, line, self.path, plain))

    def _traced(self, call: ast.AST, methods: frozenset[str] | set[str]) -> str | None:
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in methods:
            owner = call.func.value
            if isinstance(owner, ast.Name) and owner.id == self.view:
                return call.func.attr
        return None

    def _block(self, body: list[ast.stmt], loop: bool) -> None:
        self._blocks += 1
        outer, outer_loops = self.path, self.python_loops
        self.path, self.python_loops = (*outer, self._blocks), 0
        if loop:
            self.loops.add(self._blocks)
        for statement in body:
            self.visit(statement)
        self.path, self.python_loops = outer, outer_loops

    def visit_With(self, node: ast.With) -> None:
        kinds = [self._traced(item.context_expr, _WITH) for item in node.items]
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, plain=False)
        if any(kinds):
            self._block(node.body, "while_" in kinds)
        else:
            for statement in node.body:
                self.visit(statement)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        if self._traced(node.iter, {"range_"}):
            outer = self.path
            self.path = (*outer, self._blocks + 1)
            self._bind(node.target, plain=False)
            self.path = outer
            self._block(node.body, True)
            if node.orelse:
                raise _Problem("else after a k.range_ loop is not possible", node.orelse[0].lineno)
            return
        self._bind(node.target, plain=False)
        self._python_loop(node.body + node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._python_loop(node.body + node.orelse)

    def _python_loop(self, body: list[ast.stmt]) -> None:
        self.python_loops += 1
        for statement in body:
            self.visit(statement)
        self.python_loops -= 1

    def _leave(self, node: ast.stmt, what: str, instead: str) -> None:
        if self.path and (what == "return" or not self.python_loops):
            raise _Problem(f"{what} inside a traced block cannot depend on the thread; {instead}", node.lineno)

    def visit_Break(self, node: ast.Break) -> None:
        self._leave(node, "break", "use k.while_ with a condition")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._leave(node, "continue", "put the rest of the body in k.if_")

    def visit_Return(self, node: ast.Return) -> None:
        self._leave(node, "return", "use k.return_()")
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._bind(target, isinstance(node.value, _PLAIN))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self._bind(node.target, isinstance(node.value, _PLAIN))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._add("load", node.target.id, node.lineno)
            self._add("change", node.target.id, node.lineno)
        else:
            self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target, isinstance(node.value, _PLAIN))

    def _bind(self, target: ast.expr, plain: bool) -> None:
        if isinstance(target, ast.Name):
            self._add("store", target.id, target.lineno, plain)
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._bind(element, plain=False)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, plain=False)
        else:
            self.visit(target)

    def visit_Name(self, node: ast.Name) -> None:
        self._add("load", node.id, node.lineno)

    def _inner_scope(self, node: ast.AST) -> None:
        """Comprehensions, lambdas and inner functions: what they read, but not what they bind for themselves."""
        own = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        own |= {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id not in own:
                self._add("load", n.id, n.lineno)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda = _inner_scope

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inner_scope(node)
        self._add("store", node.name, node.lineno)


def _check_rebinding(reader: _Reader) -> None:
    by_name: dict[str, list[Event]] = {}
    for event in reader.events:
        by_name.setdefault(event.name, []).append(event)
    for name, events in by_name.items():
        for at, event in enumerate(events):
            if event.kind != "load" and event.path and _harmful(events, at, reader.loops):
                raise _Problem(
                    f"{name!r} is made outside this traced block and bound again inside it, "
                    "which threads cannot do to a plain name; "
                    f"make it a variable, {name} = k.var(...), and change it with {name}.set(...) or {name} += ...",
                    event.line,
                )


def _harmful(events: list[Event], at: int, loops: set[int]) -> bool:
    """True when the binding `events[at]` in a traced block would be seen outside it, or in a loop's next round."""
    event = events[at]
    outer = next((e for e in reversed(events[:at]) if e.kind == "store" and _inside(event.path, e.path)), None)
    if outer is None or outer.path == event.path:
        return False
    if event.kind == "change":
        return outer.plain
    inner = event.path[: len(outer.path) + 1]  # the outermost traced block between the two bindings
    for e in events[:at]:
        if e.kind == "load" and any(
            e.path[: n + 1] == event.path[: n + 1] for n in _loop_levels(event.path, outer.path, loops)
        ):
            return True
    after = next(_outside(events[at + 1 :], inner), None)
    return after is not None and after.kind == "load"


def _loop_levels(path: tuple[int, ...], outer: tuple[int, ...], loops: set[int]) -> Iterator[int]:
    for n in range(len(outer), len(path)):
        if path[n] in loops:
            yield n


def _outside(events: list[Event], block: tuple[int, ...]) -> Iterator[Event]:
    return (e for e in events if not _inside(e.path, block))


def _inside(path: tuple[int, ...], block: tuple[int, ...]) -> bool:
    return path[: len(block)] == block
