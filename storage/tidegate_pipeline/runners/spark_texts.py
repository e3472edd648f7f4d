"""Errors of Spark in sentences: why it does not start, why a task was lost.  Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

from ..tasks.error_texts import error_text

# The last failure of a task, in Spark's text of a lost job: the machine in brackets, the error.
_LOST: Final = re.compile(r"most recent failure: .*?\(TID \d+\) \([^)]*\): (.*)")
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]*)"')
_OTHER_VERSION: Final = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\].*different version: ([\d.]+) than that in driver: ([\d.]+)"
)
_NO_MODULE: Final = re.compile(
    r"ModuleNotFoundError: No module named '((?:tidegate_|pyspark|pyarrow)[^']*)'"
)


def noted_text(error: BaseException) -> str:
    """Return kind and first line of an error, and the notes that were added to it."""
    notes: Sequence[str] = getattr(error, "__notes__", ())
    return "\n".join((error_text(error), *notes))


def java_note(lines: Sequence[str]) -> str:
    """Return the last lines of a JVM as a note of the error that it caused."""
    return "\n".join(("the last lines of Java:", *(f"  {line}" for line in lines)))


def lost_task_text(error: BaseException, python: str) -> str:
    """Return why a task was lost.

    python: the program that Spark starts for tasks, PYSPARK_PYTHON.
    """
    text = str(error)
    what = _wrong_python(text, python)
    if what:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return (
            f"{what}: set PYSPARK_PYTHON to a Python {version} that has Tidegate's extra pipeline,"
            " at the same path on every machine of Spark"
        )
    found = _LOST.search(text)
    return (
        found[1]
        if found and "Traceback (most recent call last):" not in text
        else error_text(error)
    )


def _wrong_python(text: str, python: str) -> str:
    """Return a problem of the Python of tasks; "" if none is known."""
    if found := _NO_PROGRAM.search(text):
        return f"a machine of Spark cannot run {found[1]}"
    if found := _OTHER_VERSION.search(text):
        return f"{python} on a machine of Spark is Python {found[1]}, this one is {found[2]}"
    if found := _NO_MODULE.search(text):
        return f"{python} on a machine of Spark has no module {found[1]}"
    return ""
