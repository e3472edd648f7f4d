"""Replaces a damaged SQLite log with the repaired one.  It blocks, at a command's end."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tidegate_coordination.log.metadata_log import LogMisconfigured

_BESIDE = ("", "-wal", "-shm")


def refuse_if_open(path: Path) -> None:
    """Check that no process has the file open, if it exists.

    SQLite changes the journal mode only if the file has no other connection.  The next process that
    opens the log sets the mode back.

    Raises:
      LogMisconfigured: a process has the file open.
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
    """Move the damaged file aside and the repaired one to its place; return the old file's path.

    After a crash between the two moves the log is missing, and no gateway starts.  A second call
    completes the repair.
    """
    aside = path.with_name(f"{path.name}.damaged-before-timeline-{timeline}")
    if path.exists() and aside.exists():
        # The damaged file is moved already.  A gateway that started later has made this new file.
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
