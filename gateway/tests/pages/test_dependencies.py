"""Tidegate installs exactly the packages that it imports."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate_pipeline.commands.options import PACKAGES

ROOT = Path(__file__).parents[3]
IMPORTED_AS = {"google-re2": "re2"}


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def imported(path: Path) -> Iterator[str]:
    """Return the top-level names of all imports of a module, at any place in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


def test_the_pipelines_packages_are_named_alike_everywhere() -> None:
    extra = project()["project"]["optional-dependencies"]["pipeline"]
    assert sorted(PACKAGES) == sorted(extra)


def test_each_dependency_is_imported_by_what_is_installed() -> None:
    found = project()
    folders = found["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    ours = {Path(each).name for each in folders}
    names = {
        name
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imported(path)
    }
    strangers = names - ours - set(sys.stdlib_module_names)
    needed = {IMPORTED_AS.get(each, each) for each in found["project"]["dependencies"]}
    needed = {each.replace("-", "_") for each in needed}
    assert needed <= strangers
