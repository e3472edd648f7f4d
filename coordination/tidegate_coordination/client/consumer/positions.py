"""A place in partitions, as people type it: the beginning, the end, an offset, a time.  Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from tidegate_runtime.settings_texts import BadSource

_OFFSET_MAX: Final = (1 << 63) - 1
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_SHIFT: Final = re.compile(r"[+-][0-9]{1,19}")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].*)?")
_EPOCH_MS: Final = re.compile(r"@[0-9]{1,15}")


class PositionKind(Enum):
    """The place that a position counts from."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"  # the first record of that time or later
    SHIFT = "shift"  # from the committed offset


class Position(NamedTuple):
    """number: an offset, milliseconds since 1970 in UTC, or how far to shift; else 0."""

    kind: PositionKind
    number: int = 0


def read_position(text: str, option: str, *, shifts: bool = False) -> Position:
    """Read a position.

    Args:
      option: its name, for the error.
      shifts: +N and -N are positions, too.

    Raises:
      BadSource: the text is not a position.
    """
    for kind in (PositionKind.EARLIEST, PositionKind.LATEST):
        if text.lower() == kind.value:
            return Position(kind)
    if _NUMBER.fullmatch(text) and int(text) <= _OFFSET_MAX:
        return Position(PositionKind.OFFSET, int(text))
    if shifts and _SHIFT.fullmatch(text) and abs(int(text)) <= _OFFSET_MAX:
        return Position(PositionKind.SHIFT, int(text))
    if _EPOCH_MS.fullmatch(text):
        return Position(PositionKind.TIME, int(text[1:]))
    if _TIME.fullmatch(text):
        try:
            return Position(PositionKind.TIME, _milliseconds(text))
        except ValueError:
            pass
    more = ", +N or -N" if shifts else ""
    raise BadSource(
        f"{option} {text}: give earliest, latest, an offset, a time such as"
        f" 2026-01-31T12:00:00Z (UTC if it names no zone), @MILLISECONDS since 1970{more}"
    )


def _milliseconds(text: str) -> int:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
