"""Sizes: name folders, files and constructors that are too large (CONTRIBUTING.md, "Sizes").

    python .ci/sizes.py            # compare all with .ci/sizes.txt
    python .ci/sizes.py --write    # lower .ci/sizes.txt to the present figures

Limits: 20 Python files in a folder, 400 lines in a file, 8 parameters of a constructor.  The
parameters of a dataclass and of a NamedTuple are the fields that the class itself declares.
Generated messages and constructors of tests are not counted.  Nor are the fields of a dataclass
`...Counters`: each metric adds a field, and no caller passes any.

.ci/sizes.txt holds the exceptions, one a line: a place and its figure.  Places are `FOLDER/`,
`FILE` and `FILE:CLASS`.  A figure may only fall.  A place fails if it is above its figure, and also
if it is below, until its line has the new figure.  --write lowers and removes lines; it adds and
raises none.

Each finding is a line `PLACE: what to do`; with findings the exit status is 1.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXCEPTIONS = "sizes.txt"  # in the folder .ci
GENERATED = "protocol/tidegate_protocol/messages"
FILES, LINES, PARAMETERS = 20, 400, 8


def main(arguments: list[str], root: Path = ROOT) -> int:
    if arguments not in ([], ["--write"]):
        print(f"usage: {Path(__file__).name} [--write]", file=sys.stderr)
        return 2
    excepted = read_exceptions(root)
    large: dict[str, int] = {}
    for place, figure in sizes(root):  # two classes of a file may have one name
        if figure > max(limit_of(place), large.get(place, 0)):
            large[place] = figure
    if arguments:
        excepted = lowered(large, excepted)
        write_exceptions(root, excepted)
    found = findings(large, excepted)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


def limit_of(place: str) -> int:
    if place.endswith("/"):
        return FILES
    return LINES if place.endswith(".py") else PARAMETERS


def findings(large: dict[str, int], excepted: dict[str, int]) -> list[str]:
    """The changes that are due, in the code or in the list of exceptions."""
    found: list[str] = []
    for place in sorted(large | excepted):
        figure, listed = large.get(place, 0), excepted.get(place, 0)
        if figure > listed:
            bound = f"{listed} are listed" if listed else f"at most {limit_of(place)}"
            found.append(f"{place}: {figure} {_unit(place)}, {bound}: split it")
        elif figure < listed:
            now = f"lower its line to {figure}" if figure else "remove its line"
            found.append(f"{place}: smaller than listed: {now} in .ci/{EXCEPTIONS} (--write)")
    return found


def _unit(place: str) -> str:
    return {FILES: "Python files", LINES: "lines", PARAMETERS: "parameters"}[limit_of(place)]


def lowered(large: dict[str, int], excepted: dict[str, int]) -> dict[str, int]:
    """The exceptions that are still needed; none is new or higher than it was."""
    return {
        place: min(large[place], listed) for place, listed in excepted.items() if place in large
    }


def read_exceptions(root: Path) -> dict[str, int]:
    """Figures by place.  ValueError: a line is malformed, or two lines name one place."""
    excepted: dict[str, int] = {}
    for line in (root / ".ci" / EXCEPTIONS).read_text().splitlines():
        place, figure = line.split()
        if place in excepted:
            raise ValueError(f".ci/{EXCEPTIONS} names {place} twice")
        excepted[place] = int(figure)
    return excepted


def write_exceptions(root: Path, excepted: dict[str, int]) -> None:
    lines = [f"{place} {figure}\n" for place, figure in sorted(excepted.items())]
    (root / ".ci" / EXCEPTIONS).write_text("".join(lines))


def sizes(root: Path) -> Iterator[tuple[str, int]]:
    """Each folder, file and constructor with its figure; nothing hidden or generated."""
    for name, folders, files in os.walk(root):
        folder = Path(name)
        folders[:] = [each for each in folders if _is_ours(root, folder / each)]
        modules = [folder / each for each in files if each.endswith(".py")]
        if folder != root:
            yield f"{folder.relative_to(root).as_posix()}/", len(modules)
        for module in modules:
            yield from sizes_within(module.relative_to(root).as_posix(), module.read_text())


def _is_ours(root: Path, folder: Path) -> bool:
    return folder.name[0] != "." and folder != root / GENERATED


def sizes_within(place: str, source: str) -> Iterator[tuple[str, int]]:
    """A file and, unless it is in a folder `tests`, its constructors, with their figures."""
    yield place, source.count("\n")
    if "tests" not in place.split("/"):
        for each in _classes(ast.parse(source).body):
            yield f"{place}:{each.name}", parameters(each)


def _classes(body: list[ast.stmt]) -> Iterator[ast.ClassDef]:
    for each in body:
        if isinstance(each, ast.ClassDef):
            yield each
        yield from _classes(getattr(each, "body", []))


def parameters(of: ast.ClassDef) -> int:
    """The number of a constructor's parameters: written in __init__, or declared as fields."""
    for each in of.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            given = each.args
            named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            return len(named) - 1 + (given.vararg is not None) + (given.kwarg is not None)
    makers = [*of.decorator_list, *of.bases]
    if of.name.endswith("Counters") or not any(
        _name(each) in {"dataclass", "NamedTuple"} for each in makers
    ):
        return 0
    return sum(isinstance(each, ast.AnnAssign) and _is_parameter(each) for each in of.body)


def _is_parameter(declared: ast.AnnAssign) -> bool:
    if _name(declared.annotation) in {"ClassVar", "KW_ONLY"}:
        return False
    value = declared.value
    return not (
        isinstance(value, ast.Call)
        and any(each.arg == "init" and _is_false(each.value) for each in value.keywords)
    )


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _name(node: ast.expr) -> str:
    """The last name of `dataclass`, `dataclasses.dataclass`, `dataclass(...)`, `ClassVar[...]`."""
    if isinstance(node, ast.Call):
        node = node.func
    elif isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
