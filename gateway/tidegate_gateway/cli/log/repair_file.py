"""Putting a repaired SQLite log where the damaged one was.  Blocking; for the end of a command."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tidegate_coordination.log.metadata_log import LogMisconfigured

_BESIDE = ("", "-wal", "-shm")


def refuse_if_open(path: Path) -> None:
    """See that no process has the file open, if there is one.

    SQLite leaves the journal mode only to a connection that is alone; it is set back by the next
    who opens the log.

    Raises:
      LogMisconfigured: one has.
    """
    if not path.exists():
        return
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise LogMisconfigured(
                    f"a gateway has {path} open: stop it first, or repair to another log with --to"
                ) from error


def put_in_place(repaired: Path, path: Path, timeline: int) -> Path:
    """Move the damaged file aside and the repaired one to its place; return where the old one is.

    Cut short between the two, the log is missing and nothing starts; doing it again ends it.
    """
    aside = path.with_name(f"{path.name}.damaged-before-timeline-{timeline}")
    if path.exists() and aside.exists():
        # The damaged file is moved already: this one was made since, by a gateway that was started.
        aside = path.with_name(f"{aside.name}-{time.time_ns()}")
    for suffix in _BESIDE:
        old = path.with_name(path.name + suffix)
        if old.exists():
            os.replace(old, aside.with_name(aside.name + suffix))
    os.replace(repaired, path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return aside
