"""Short texts of exceptions, for people."""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb
from typing import cast


def error_text(error: BaseException) -> str:
    """Return kind and first line of an error; for a group, those of its first error."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    lines = str(error).strip().splitlines() or [""]
    if "Traceback (most recent call last):" in lines:
        return lines[-1]  # an error of a worker, wrapped by Spark
    # The first line of Py4J's text only names the call.
    line = next((each for each in lines if each[:2] == ": "), lines[0])
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def unexpected_text(error: Exception) -> str:
    """Return the text of a programming error, with the place where it was raised."""
    at = extract_tb(error.__traceback__)[-1]
    return f"{error_text(error)} (unexpected, at {Path(at.filename).name}:{at.lineno})"
