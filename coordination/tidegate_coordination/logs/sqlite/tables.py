"""The SQL of `sqlite:`: one connection, blocking, no retries. `log.py` decides when it runs.

    entry(position, payload, crc)           the primary key is the compare-and-set
    boundary(trimmed)                       one row: positions up to it are gone for ever
    snapshot(id, position, complete)        counts only when complete
    snapshot_chunk(snapshot, ordinal, framed)

Each statement is its own transaction, so none holds the write lock for longer than one fsync.
SQLite does not checksum its pages, so an entry carries the CRC-32C of (position, payload).
"""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Final

import crc32c

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogMisconfigured,
    LogMisuse,
    LogUnavailable,
    Trimmed,
)

APPLICATION_ID: Final = 0x54644C67  # "TdLg": says whose file it is
FORMAT: Final = 1
_TRIM_BATCH: Final = 500
_SNAPSHOTS_KEPT: Final = 2
_SYNCHRONOUS_FULL: Final = 2

_SCHEMA: Final = (
    "CREATE TABLE entry (position INTEGER PRIMARY KEY, payload BLOB NOT NULL,"
    " crc INTEGER NOT NULL)",
    "CREATE TABLE boundary (one INTEGER PRIMARY KEY CHECK (one = 1), trimmed INTEGER NOT NULL)",
    "INSERT INTO boundary VALUES (1, 0)",
    # AUTOINCREMENT: the id of a dropped snapshot must not be reused while its writer still writes.
    "CREATE TABLE snapshot (id INTEGER PRIMARY KEY AUTOINCREMENT, position INTEGER NOT NULL,"
    " complete INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE snapshot_chunk (snapshot INTEGER NOT NULL, ordinal INTEGER NOT NULL,"
    " framed BLOB NOT NULL, PRIMARY KEY (snapshot, ordinal))",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)
_TRIMMED: Final = "(SELECT trimmed FROM boundary)"
_LAST: Final = f"coalesce((SELECT max(position) FROM entry), {_TRIMMED})"
_APPEND: Final = (
    "INSERT INTO entry SELECT :position, :payload, :crc"
    f" WHERE :position > {_TRIMMED} AND :position <= 1 + {_LAST}"
)
_TRIM: Final = (
    "UPDATE boundary SET trimmed = :upto WHERE :upto > trimmed"
    f" AND (:upto <= {_LAST} OR {_LAST} = 0)"
)

# The log's error for a primary result code; any other code is a bug and stays a sqlite3.Error.
_UNAVAILABLE: Final = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_PROTOCOL,
}
_MISCONFIGURED: Final = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_NOTADB,
}


class LogBusy(LogUnavailable):
    """Another connection holds the lock: nothing happened. Try again at once."""


@contextmanager
def translated_errors(doing: str) -> Generator[None]:
    """Translate errors of SQLite into errors of a metadata log."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # Errors of the module itself, such as a closed connection, carry no code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        text = f"the SQLite log could not {doing}: {error}"
        if code == sqlite3.SQLITE_BUSY:
            raise LogBusy(text) from error
        if code in _UNAVAILABLE:
            raise LogUnavailable(text) from error
        if code in _MISCONFIGURED:
            raise LogMisconfigured(text) from error
        if code == sqlite3.SQLITE_CORRUPT:
            raise LogCorrupt(text) from error
        raise


def connect(path: str, *, busy_seconds: float) -> sqlite3.Connection:
    """Open the file, creating it if absent; set it durable, check it, and make our tables."""
    with translated_errors("open its file"):
        connection = sqlite3.connect(
            path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            _make_durable(connection)
            _make_tables(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _make_durable(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone does not reach the disk
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    check_durable(connection)


def check_durable(connection: sqlite3.Connection) -> None:
    """Check the pragmas by reading them back: SQLite ignores those that it cannot apply."""
    mode = _pragma(connection, "journal_mode")
    if mode != "wal":
        raise LogMisconfigured(
            f"SQLite keeps journal_mode={mode} instead of WAL here: use a file on a local disk"
        )
    level = _pragma(connection, "synchronous")
    if level != _SYNCHRONOUS_FULL:
        raise LogMisconfigured(
            f"SQLite keeps synchronous={level} instead of {_SYNCHRONOUS_FULL} (FULL): "
            "acknowledged entries would not survive a power cut"
        )


def _make_tables(connection: sqlite3.Connection) -> None:
    if _is_ours(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_ours(connection):  # another process may have been faster
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Return whether the tables exist; refuse files of other programs and of newer releases."""
    owner, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    if owner == APPLICATION_ID:
        if version != FORMAT:
            raise LogMisconfigured(
                f"the SQLite log has format {version}; this release reads {FORMAT}"
            )
        return True
    if owner or version or connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
        raise LogMisconfigured("the file is a SQLite database, but not a metadata log of Tidegate")
    return False


def _pragma(connection: sqlite3.Connection, name: str) -> int | str:
    value: int | str = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


class SqliteTables:
    """The tables through one connection. `SqliteLog` lets only one thread use it at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known_last = 0
        self._data_version = -1

    def close(self) -> None:
        self._connection.close()

    def append(self, position: int, payload: bytes) -> AppendResult:
        row = {"position": position, "payload": payload, "crc": _crc(position, payload)}
        try:
            inserted = self._connection.execute(_APPEND, row).rowcount
        except sqlite3.IntegrityError:
            return AppendResult.CONFLICT
        if inserted:
            self._known_last = max(self._known_last, position)
            return AppendResult.APPENDED
        if position <= self._trimmed():
            return AppendResult.TRIMMED
        raise _too_far(position, self.last_position())

    def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        entries = self._read_rows(from_position, max_bytes)
        # The boundary is read after the rows. It rises before rows are deleted, so every gap is
        # noticed.
        if from_position <= (trimmed := self._trimmed()):
            return Trimmed(trimmed + 1)
        for position, entry in enumerate(entries, start=from_position):
            if entry.position != position:
                raise LogCorrupt(f"entry {position} is missing from the SQLite log")
        if not entries and from_position > self.last_position() + 1:
            raise _too_far(from_position, self.last_position())
        return entries

    def _read_rows(self, from_position: int, max_bytes: int) -> list[LogEntry]:
        query = "SELECT position, payload, crc FROM entry WHERE position >= ? ORDER BY position"
        entries: list[LogEntry] = []
        # Closed before the next statement: an open cursor would pin what this connection sees.
        with closing(self._connection.execute(query, (from_position,))) as rows:
            for position, payload, crc in rows:
                max_bytes -= len(payload)
                if entries and max_bytes < 0:
                    break
                if crc != _crc(position, payload):
                    raise LogCorrupt(f"entry {position} of the SQLite log fails its checksum")
                entries.append(LogEntry(position, payload))
        return entries

    def last_position(self) -> int:
        return self._number(f"SELECT {_LAST}")

    def poll_last(self) -> int:
        """The last position, read from the table only when another connection has committed."""
        # data_version does not show our own commits, so those are remembered by `append`.
        data_version = self._number("PRAGMA data_version")
        if data_version != self._data_version:
            self._known_last = max(self._known_last, self.last_position())
            self._data_version = data_version
        return self._known_last

    def _trimmed(self) -> int:
        return self._number("SELECT trimmed FROM boundary")

    def _number(self, query: str) -> int:
        value: int = self._connection.execute(query).fetchone()[0]
        return value

    def raise_boundary(self, before_position: int) -> None:
        upto = before_position - 1
        raised = self._connection.execute(_TRIM, {"upto": upto}).rowcount
        if not raised and upto > self._trimmed():
            raise LogMisuse(
                f"cannot trim below {before_position}: the log ends at {self.last_position()}"
            )

    def delete_trimmed(self) -> bool:
        """Delete some rows below the boundary; False when none are left."""
        deleted = self._connection.execute(
            "DELETE FROM entry WHERE position IN (SELECT position FROM entry"
            f" WHERE position <= {_TRIMMED} ORDER BY position LIMIT {_TRIM_BATCH})"
        ).rowcount
        return deleted == _TRIM_BATCH

    def begin_snapshot(self, position: int) -> int:
        query = "INSERT INTO snapshot (position) VALUES (?)"
        snapshot = self._connection.execute(query, (position,)).lastrowid
        assert snapshot is not None
        return snapshot

    def put_chunk(self, snapshot: int, ordinal: int, framed: bytes) -> None:
        # REPLACE: after an unclear outcome the same chunk is put once more.
        query = "INSERT OR REPLACE INTO snapshot_chunk VALUES (?, ?, ?)"
        self._connection.execute(query, (snapshot, ordinal, framed))

    def complete_snapshot(self, snapshot: int) -> None:
        query = "UPDATE snapshot SET complete = 1 WHERE id = ?"
        if not self._connection.execute(query, (snapshot,)).rowcount:
            raise LogUnavailable("a newer snapshot was completed while this one was being saved")

    def drop_old_snapshots(self) -> None:
        """Keep the newest two complete snapshots, and saves under way above them."""
        newest = self.complete_snapshots()[:_SNAPSHOTS_KEPT]
        if not newest:
            return
        kept = ", ".join(str(each) for each, _ in newest)
        self._connection.execute(
            f"DELETE FROM snapshot WHERE id NOT IN ({kept}) AND position <= ?", (newest[0][1],)
        )
        self._connection.execute(
            "DELETE FROM snapshot_chunk WHERE snapshot NOT IN (SELECT id FROM snapshot)"
        )

    def complete_snapshots(self) -> list[tuple[int, int]]:
        """Return (id, position) of the complete snapshots, the newest first."""
        query = "SELECT id, position FROM snapshot WHERE complete ORDER BY position DESC, id DESC"
        return self._connection.execute(query).fetchall()

    def read_chunks(self, snapshot: int, from_ordinal: int, max_bytes: int) -> list[bytes]:
        """Return frames from an ordinal on, in order: one if there is any, then as many as fit."""
        query = (
            "SELECT framed FROM snapshot_chunk WHERE snapshot = ? AND ordinal >= ? ORDER BY ordinal"
        )
        frames: list[bytes] = []
        with closing(self._connection.execute(query, (snapshot, from_ordinal))) as rows:
            for (framed,) in rows:
                max_bytes -= len(framed)
                if frames and max_bytes < 0:
                    break
                frames.append(framed)
        return frames


def _crc(position: int, payload: bytes) -> int:
    return crc32c.crc32c(payload, crc32c.crc32c(position.to_bytes(8, "big")))


def _too_far(position: int, last: int) -> LogCorrupt:
    return LogCorrupt(f"position {position} was requested, but the SQLite log ends at {last}")
