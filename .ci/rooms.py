"""Draws the rooms of every package into docs/rooms.md, from the imports of the code.

    python .ci/rooms.py            # write them into the page
    python .ci/rooms.py --check    # exit 1 when the page differs

A room is a folder of a package.  Its floor is above those of all rooms that it imports, directly or
through modules that lie in no room.  The page shows the first sentence of the room's `__init__.py`.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = "docs/rooms.md"
BEGIN, END = "<!-- begin rooms -->", "<!-- end rooms -->"
COLUMNS = 100
GENERATED = {"messages": "Generated: the messages of every API, in all versions."}
PACKAGES = (
    "lab/tidegate_bench",
    "lab/tidegate_fuzz",
    "lab/tidegate_simulation",
    "gateway/tidegate_gateway",
    "storage/tidegate_pipeline",
    "coordination/tidegate_coordination",
    "storage/tidegate_storage",
    "protocol/tidegate_protocol",
    "runtime/tidegate_runtime",
)

Graph = Mapping[str, set[str]]
"""The names that each name imports."""


def main(arguments: list[str], root: Path = ROOT) -> int:
    page = root / PAGE
    present = page.read_text()
    wanted = with_rooms(present, root)
    if arguments == ["--check"]:
        if wanted != present:
            print(f"{PAGE} is old: run .venv/bin/python .ci/rooms.py", file=sys.stderr)
        return int(wanted != present)
    page.write_text(wanted)
    return 0


def with_rooms(page: str, root: Path) -> str:
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    assert found, f"{PAGE} has no part between {BEGIN} and {END}"
    return f"{before}{BEGIN}\n\n{drawn(root)}\n\n{END}{after}"


def drawn(root: Path) -> str:
    """The drawing of the packages, then a list of rooms for each package that has rooms."""
    packages = {Path(each).name: root / each for each in PACKAGES if (root / each).exists()}
    parts = [_fenced(house(floors(imports_between(packages))))]
    for name, folder in packages.items():
        parts.append(f"### {folder.relative_to(root).as_posix()}\n\n{sentence(folder)}")
        rooms = [each for each in folder.iterdir() if (each / "__init__.py").exists()]
        if rooms:
            parts.append(_fenced(list(_list_of(rooms, floors(imports_within(name, folder))))))
    return "\n\n".join(parts)


def _fenced(lines: list[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def house(floor_of: Mapping[str, int]) -> list[str]:
    """The lines of a drawing: a box for each name, which imports only names of lower floors."""
    inner = 64
    lines = ["+" + "-" * inner + "+"]
    for number in sorted({*floor_of.values()}, reverse=True):
        names = sorted(each for each, floor in floor_of.items() if floor == number)
        room = (inner - len(names) + 1) // len(names)
        boxes = "|".join(each.center(room) for each in names)
        lines += [f"|{boxes.ljust(inner)}|", lines[0]]
    return lines


def _list_of(rooms: list[Path], floor_of: Mapping[str, int]) -> Iterator[str]:
    """Lines `floor  room  sentence`; floors count rooms only."""
    used = sorted({floor_of[each.name] for each in rooms})
    width = max(len(each.name) for each in rooms)
    above = 0
    for room in sorted(rooms, key=lambda each: (-floor_of[each.name], each.name)):
        floor = used.index(floor_of[room.name]) + 1
        number = "" if floor == above else str(floor)
        above = floor
        yield from textwrap.wrap(
            f"{number:>2}  {room.name:{width}}  {sentence(room)}",
            COLUMNS,
            subsequent_indent=" " * (width + 6),
        )


def sentence(folder: Path) -> str:
    """The first sentence of a folder's docstring, on one line."""
    if folder.name in GENERATED:
        return GENERATED[folder.name]
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    first, _, _ = " ".join(text.split()).partition(". ")
    assert first, f"{folder}/__init__.py has no docstring"
    return f"{first.rstrip('.')}."


def floors(graph: Graph) -> dict[str, int]:
    """The floor of each name, from 1: one above the highest that it imports."""
    found: dict[str, int] = {}
    while len(found) < len(graph):
        ready = [each for each, below in graph.items() if each not in found and below <= {*found}]
        assert ready, f"a circle of imports among {sorted(graph.keys() - found.keys())}"
        found |= {
            each: 1 + max((found[below] for below in graph[each]), default=0) for each in ready
        }
    return found


def imports_between(packages: Mapping[str, Path]) -> Graph:
    return {
        name: {each.split(".")[0] for each in _imports(folder, name)} & packages.keys() - {name}
        for name, folder in packages.items()
    }


def imports_within(package: str, folder: Path) -> Graph:
    """The rooms and modules of a package that each of its rooms and other modules imports."""
    names = {
        each.stem: each
        for each in folder.iterdir()
        if (each.suffix == ".py" and each.stem != "__init__") or (each / "__init__.py").exists()
    }
    return {
        name: {
            parts[1]
            for parts in (each.split(".") for each in _imports(place, f"{package}.{name}"))
            if parts[0] == package and parts[1:2] and parts[1] in names and parts[1] != name
        }
        for name, place in names.items()
    }


def _imports(place: Path, dotted: str) -> Iterator[str]:
    """The absolute names that a module, or each module of a folder, imports."""
    if place.name in GENERATED:
        return
    if place.is_dir():
        for each in place.iterdir():
            if each.suffix == ".py" or (each / "__init__.py").exists():
                yield from _imports(each, f"{dotted}.{each.stem}")
        return
    for node in ast.walk(ast.parse(place.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = dotted.split(".")[: -node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{origin}.{each.name}" for each in node.names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
