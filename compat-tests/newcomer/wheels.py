"""Wheels of this tree, and of the same tree as another release."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from harness.places import ROOT
from image.building import wheel_words
from image.machine import Machine

NEXT: Final = "0.2.0"
_VERSION: Final = re.compile(r'^version = "(.*)"$', re.MULTILINE)
_LEFT_OUT: Final = shutil.ignore_patterns(".*", "__pycache__", "node_modules")


def build(machine: Machine, wheels: Path, next_wheels: Path) -> None:
    """Fill both folders, each with the wheels of Tidegate and of its dependencies."""
    machine.run(*wheel_words(wheels, "."), cwd=ROOT)
    shutil.copytree(wheels, next_wheels, ignore=shutil.ignore_patterns("tidegate-*"))
    tree = machine.folder / "tree"
    shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
    project = tree / "pyproject.toml"
    project.write_text(with_version(project.read_text(encoding="utf-8"), NEXT), encoding="utf-8")
    machine.run(*wheel_words(next_wheels, "--no-deps", "."), cwd=tree)
    shutil.rmtree(tree)


def with_version(project: str, version: str) -> str:
    """Return a pyproject.toml with another version of the package."""
    text, count = _VERSION.subn(f'version = "{version}"', project)
    assert count == 1
    return text
