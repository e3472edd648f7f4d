"""Wheels of releases, and the virtual environments into which an operator installs them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.places import ROOT, WORK

FOLDER: Final = WORK / "upgrade"
_VERSION: Final = re.compile(r'^version = "(.+)"$', re.MULTILINE)
_PINS: Final = "constraints.txt"


@dataclass(frozen=True, slots=True)
class Release:
    """A built release.  folder: has its wheel and its constraints.txt.  version: of the package."""

    folder: Path
    version: str

    @property
    def wheel(self) -> str:
        """The name of the wheel's file."""
        [found] = self.folder.glob("*.whl")
        return found.name


def older_release(commit: str) -> Release:
    """Return the release of a commit, built from its tree.

    The local part of its version is the commit's name.  So pip and the list of gateways distinguish
    it from a later commit of the same version.

    Raises:
      CalledProcessError: there is no such commit here, or it cannot be built.
    """
    name = _output("git", "rev-parse", "--short=12", f"{commit}^{{commit}}").strip().decode()
    tree = FOLDER / f"tree-{name}"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", tree], input=_output("git", "archive", name), check=True)
    project = tree / "pyproject.toml"
    text = project.read_text()
    version = f"{_version(text)}+{name}"
    project.write_text(_VERSION.sub(f'version = "{version}"', text, count=1))
    try:
        return _built(tree, FOLDER / f"wheel-{name}", version)
    finally:
        shutil.rmtree(tree)


def newer_release() -> Release:
    """Return the release of this tree, built again.

    Raises:
      CalledProcessError: it cannot be built.
    """
    return _built(ROOT, FOLDER / "wheel-newer", _version((ROOT / "pyproject.toml").read_text()))


def environment(name: str) -> Path:
    """Return the folder of a virtual environment, which is made once and kept between runs."""
    folder = FOLDER / f"environment-{name}"
    if not (folder / "bin" / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    return folder


def _built(tree: Path, folder: Path, version: str) -> Release:
    """Build a wheel as deploy/README.md says, with the versions that were tested."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(tree / _PINS, folder / _PINS)
    command = ["env", f"PIP_CONSTRAINT={_PINS}", f"PIP_BUILD_CONSTRAINT={_PINS}", sys.executable]
    command += ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", folder, "."], cwd=tree, check=True)
    return Release(folder, version)


def _version(project: str) -> str:
    found = _VERSION.search(project)
    assert found is not None, "pyproject.toml has a version"
    return found[1]


def _output(*command: str) -> bytes:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
