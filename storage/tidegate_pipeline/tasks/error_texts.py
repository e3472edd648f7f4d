"""What a person wants to know of an exception."""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb
from typing import cast


def error_text(error: BaseException) -> str:
    """Return what a person wants to know: kind and first line, of a group those of its first."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    lines = str(error).strip().splitlines() or [""]
    if "Traceback (most recent call last):" in lines:
        return lines[-1]  # one of a worker's, told by Spark
    # Py4J says first which of its calls it was.
    line = next((each for each in lines if each[:2] == ": "), lines[0])
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def unexpected_text(error: Exception) -> str:
    """Return what whoever mends a mistake of ours has to know: also where it was raised."""
    at = extract_tb(error.__traceback__)[-1]
    return f"{error_text(error)} (unexpected, at {Path(at.filename).name}:{at.lineno})"
