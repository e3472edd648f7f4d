"""Entries of a log whose own checksums are looked at, for those who keep them and do not fold them.

An entry that fails its checksum counts as one that the log calls damaged.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..events.entries import UnreadableEntry, check_entry
from .metadata_log import LogCorrupt, LogEntry


def expect_whole(entries: Iterable[LogEntry]) -> None:
    """See that no entry is damaged; what has no checksum passes.

    Raises:
      LogCorrupt: one is.
    """
    for each in entries:
        try:
            check_entry(each.payload, each.position)
        except UnreadableEntry as error:
            raise LogCorrupt(str(error)) from error


def whole_ones(entries: Iterable[LogEntry]) -> tuple[list[LogEntry], str]:
    """Return the entries before the first that is damaged, and what is wrong with that one."""
    whole: list[LogEntry] = []
    try:
        for each in entries:
            expect_whole([each])
            whole.append(each)
    except LogCorrupt as damage:
        return whole, str(damage)
    return whole, ""
