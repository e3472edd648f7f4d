"""Measures which branches ran, by marks woven into modules at their import.

Each function body and each arm of a branch (the missing "else" too) gets one statement that sets a
byte of a table.  A mark costs some 30 ns, where a trace function costs a microsecond a line, so
every execution is measured and a run repeats exactly.  Marks stay set: an input that raises their
number reached new code.

watch() must precede the import of the measured modules; it does not change modules that are already
imported.  Bytecode of woven modules is neither read from nor written to disk.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

TABLE = "_tidegate_fuzz_marks"
MAX_MARKS = 1 << 16


class Marks:
    """table[i] is 1 once mark i was passed; places[i] is its place in the source."""

    def __init__(self) -> None:
        self.table = bytearray(MAX_MARKS)
        self.places: list[tuple[str, int]] = []

    @property
    def reached(self) -> int:
        """Return the number of passed marks."""
        return self.table.count(1)

    def add(self, path: str, line: int) -> int:
        """Return the number of a new mark."""
        self.places.append((path, line))
        if len(self.places) > MAX_MARKS:
            raise OverflowError("more branches than marks: raise MAX_MARKS")
        return len(self.places) - 1

    def not_reached(self) -> list[tuple[str, int]]:
        """Return the places of the marks that were never passed."""
        return [place for place, hit in zip(self.places, self.table, strict=False) if not hit]


class _Weaver:
    """Weaves marks into a module.  It skips expressions, since they hold no statements."""

    def __init__(self, marks: Marks, path: str) -> None:
        self._marks = marks
        self._path = path

    def weave(self, node: ast.AST) -> None:
        """Mark the children of a node first, then the node."""
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.stmt | ast.ExceptHandler | ast.match_case):
                self.weave(each)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._mark(node.body, node.lineno)
        elif isinstance(node, ast.If):
            self._mark(node.body, node.lineno)
            self._mark(node.orelse, node.lineno)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler):
            self._mark(node.body, node.lineno)

    def _mark(self, body: list[ast.stmt], line: int) -> None:
        first = body[0] if body else None
        line = first.lineno if first else line
        mark = _mark(self._marks.add(self._path, line), line)
        is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        body.insert(int(is_text), mark)


def _mark(number: int, line: int) -> ast.stmt:
    """Return the statement `TABLE[number] = 1`."""
    at: Any = {"lineno": line, "col_offset": 0}
    table = ast.Name(TABLE, ast.Load(), **at)
    place = ast.Subscript(table, ast.Constant(number, **at), ast.Store(), **at)
    return ast.Assign([place], ast.Constant(1, **at), **at)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, marks: Marks) -> None:
        super().__init__(name, path)
        self._marks = marks

    def path_stats(self, path: str) -> Any:
        raise OSError("woven modules have no bytecode on disk")

    def source_to_code(  # type: ignore[override]  # typeshed's has more overloads than are called
        self, data: bytes, path: str, *, _optimization: int = -1
    ) -> CodeType:
        tree = ast.parse(data, path)
        _Weaver(self._marks, path).weave(tree)
        return compile(tree, path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[TABLE] = self._marks.table
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def __init__(self, names: Sequence[str], marks: Marks) -> None:
        self._names = names
        self._marks = marks

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(fullname == each or fullname.startswith(f"{each}.") for each in self._names):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = _Loader(fullname, spec.origin, self._marks)
        return spec


def watch(names: Sequence[str]) -> Marks:
    """Weave marks into these modules and packages when they are imported."""
    marks = Marks()
    sys.meta_path.insert(0, _Finder(names, marks))
    return marks
