"""Checks entries' own checksums, for callers that store entries and do not fold them.

An entry that fails its checksum counts as one that the log reports as damaged.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..events.entries import UnreadableEntry, check_entry
from .metadata_log import LogCorrupt, LogEntry


def expect_whole(entries: Iterable[LogEntry]) -> None:
    """Check that no entry is damaged; an entry without a checksum passes.

    Raises:
      LogCorrupt: an entry is damaged.
    """
    for each in entries:
        try:
            check_entry(each.payload, each.position)
        except UnreadableEntry as error:
            raise LogCorrupt(str(error)) from error


def whole_ones(entries: Iterable[LogEntry]) -> tuple[list[LogEntry], str]:
    """Return the entries before the first damaged one, and the error of that one."""
    whole: list[LogEntry] = []
    try:
        for each in entries:
            expect_whole([each])
            whole.append(each)
    except LogCorrupt as damage:
        return whole, str(damage)
    return whole, ""
