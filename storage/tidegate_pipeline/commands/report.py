"""Helpers of the commands: errors as a sentence, exit codes, sizes and times for people."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Final

from tidegate_coordination.refusals import first_of, sentence_of
from tidegate_runtime.log_lines import LEVELS, configure_logs
from tidegate_runtime.settings_texts import BadSource

from ..runners.spark_trouble import AttemptsUsedUp, NoSpark
from .parts import NothingThere
from .stopping import StopAsked, StoppedAtOnce

EMPTY: Final = 2
STOPPED: Final = 130
_OURS: Final = (AttemptsUsedUp, NoSpark, NothingThere, StopAsked)
_CODES: Final[dict[type[BaseException], int]] = {NothingThere: EMPTY, StopAsked: STOPPED}
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")


def check_level(log_level: str) -> None:
    """Set up logs.

    Raises:
      BadSource: the level does not exist.
    """
    if log_level not in LEVELS:
        raise BadSource(f"--log-level {log_level}: choose one of {', '.join(LEVELS)}")
    configure_logs(log_level)


def run_command(work: Callable[[], int]) -> int:
    """Do the work; return its exit code, or that of an error that the user can fix."""
    try:
        return work()
    except Exception as error:
        first = first_of(error)
        if isinstance(first, StoppedAtOnce):
            return 1
        sentence = str(first) if isinstance(first, _OURS) else sentence_of(error)
        if sentence is None:
            raise
        print(f"tidegate: {sentence}", file=sys.stderr)
        return _CODES.get(type(first), 1)


def size_text(size_bytes: int) -> str:
    """Return a size with a unit that people read easily."""
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    power = min(int(math.log(size_bytes, 1024)), len(_UNITS))
    return f"{size_bytes / 1024**power:.1f} {_UNITS[power - 1]}"


def time_text(ms: int) -> str:
    """Return a time with a unit that people read easily."""
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
