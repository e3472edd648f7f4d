"""Generates the codec of the protocol, and compiles the loops over record bytes.

The codec is generated while a wheel, an editable install or an sdist is built.  An install from an
sdist does not generate the codec, because the sdist has it.  The loops are compiled only for a
wheel and an editable install, so an sdist has no compiled files.

Each loop is a plain Python file with types for Cython beside it (`.pxd`).  Where Cython, a C
compiler or Python's headers are missing, the build says so and continues: the Python file does the
same, slower.  The compiled file's name ends in the ABI of this Python.  Another Python does not see
it and takes the Python file, so the wheel stays one for every platform.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = {"tidegate_protocol.record_walk": "protocol/tidegate_protocol/record_walk.py"}
DIRECTIVES = {
    "language_level": 3,
    # Annotations are for people and mypy; the .pxd has the types.
    "annotation_typing": False,
    # An index beyond the data raises IndexError, as in Python; the code counts on it.
    "boundscheck": True,
    "wraparound": False,
    "initializedcheck": False,
}


class BuildHook(BuildHookInterface[Any]):
    """The hook that hatchling calls for each target."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate and compile; version: "standard" or "editable"."""
        self._work = Path(tempfile.mkdtemp(prefix="tidegate-build-"))
        generate(Path(self.root))
        if self.target_name == "wheel":
            self._compile(version, build_data)

    def _compile(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            built = compiled(Path(self.root), self._work)
        except Exception as error:  # of any kind: the wheel also works without compiled files
            self.app.display_warning(f"not compiled: {error}")
            return
        for module, path in built.items():
            target = Path(COMPILED[module]).parent / path.name
            if version == "editable":
                put(path, Path(self.root) / target)
            else:
                build_data["force_include"][str(path)] = str(Path(*target.parts[1:]))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the work folder: the wheel has the compiled files."""
        shutil.rmtree(self._work)


def generate(root: Path) -> None:
    """Generate the codec, unless PKG-INFO shows an unpacked sdist, which has the codec."""
    if not (root / "PKG-INFO").exists():
        # generate.py imports modules from its own folder, which PYTHONSAFEPATH would prevent.
        environment = {**os.environ, "PYTHONSAFEPATH": ""}
        program = [sys.executable, str(root / "protocol" / "generate.py")]
        subprocess.run(program, check=True, env=environment)


def put(built: Path, target: Path) -> None:
    """Replace a compiled file atomically, because a running process may use the former file."""
    new = target.with_name(target.name + ".new")
    shutil.copy(built, new)
    new.replace(target)


def compiled(root: Path, work: Path) -> dict[str, Path]:
    """Compile all modules into a folder; return where each one is.

    Raises:
      ImportError: Cython or setuptools is not installed.
      BaseError: of setuptools; there is no C compiler, or no header of Python.
    """
    from Cython.Build import cythonize  # type: ignore[import-untyped]
    from setuptools import Distribution, Extension

    sources = [Extension(name, [str(root / path)]) for name, path in COMPILED.items()]
    modules = cythonize(
        sources, compiler_directives=DIRECTIVES, build_dir=str(work / "c"), force=True, quiet=True
    )
    command: Any = Distribution({"ext_modules": modules}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(work / "lib"), str(work / "temp")
    command.ensure_finalized()
    command.run()
    return {name: Path(command.get_ext_fullpath(name)) for name in COMPILED}


if __name__ == "__main__":
    # Compiles in place, for work on the modules.
    tree = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        for name, path in compiled(tree, Path(folder)).items():
            target = tree / Path(COMPILED[name]).parent / path.name
            put(path, target)
            sys.stdout.write(f"{target}\n")
