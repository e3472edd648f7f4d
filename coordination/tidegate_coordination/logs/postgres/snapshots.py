"""The SQL of snapshots in a PostgreSQL log: one statement, one transaction for each step."""

from typing import Final

from tidegate_coordination.log.metadata_log import LogUnavailable
from tidegate_coordination.logs.postgres.session import Connection

_SNAPSHOTS_KEPT: Final = 2


def begin_snapshot(connection: Connection, position: int) -> int:
    query = "INSERT INTO snapshot (position) VALUES (%s) RETURNING id"
    row = connection.execute(query, (position,)).fetchone()
    assert row is not None
    snapshot: int = row[0]
    return snapshot


def put_chunk(connection: Connection, snapshot: int, ordinal: int, framed: bytes) -> None:
    # DO UPDATE: after an unclear outcome the same chunk is put once more.
    query = (
        "INSERT INTO snapshot_chunk VALUES (%s, %s, %s)"
        " ON CONFLICT (snapshot, ordinal) DO UPDATE SET framed = excluded.framed"
    )
    connection.execute(query, (snapshot, ordinal, framed))


def complete_snapshot(connection: Connection, snapshot: int) -> None:
    query = "UPDATE snapshot SET complete = true WHERE id = %s"
    if not connection.execute(query, (snapshot,)).rowcount:
        raise LogUnavailable("a newer snapshot was completed while this one was being saved")


def drop_old_snapshots(connection: Connection) -> None:
    """Keep the newest two complete snapshots, and saves under way at or above the newest."""
    newest = complete_snapshots(connection)[:_SNAPSHOTS_KEPT]
    if not newest:
        return
    kept, position = [each for each, _ in newest], newest[0][1]
    # A snapshot at the newest position that is completed at this moment is dropped next time.
    connection.execute(
        "DELETE FROM snapshot WHERE id <> ALL(%s) AND position <= %s"
        " AND (complete OR position < %s)",
        (kept, position, position),
    )
    connection.execute("DELETE FROM snapshot_chunk WHERE snapshot NOT IN (SELECT id FROM snapshot)")


def complete_snapshots(connection: Connection) -> list[tuple[int, int]]:
    """Return (id, position) of the complete snapshots, the newest first."""
    query = "SELECT id, position FROM snapshot WHERE complete ORDER BY position DESC, id DESC"
    return [(row[0], row[1]) for row in connection.execute(query).fetchall()]


def read_chunks(
    connection: Connection, snapshot: int, from_ordinal: int, max_bytes: int
) -> list[bytes]:
    """Return frames from an ordinal on, in order: one if there is any, then as many as fit."""
    query = """
        SELECT framed FROM (
            SELECT ordinal, framed, sum(octet_length(framed)) OVER (ORDER BY ordinal) AS total
            FROM snapshot_chunk WHERE snapshot = %(snapshot)s AND ordinal >= %(ordinal)s
        ) AS rest
        WHERE total <= %(max_bytes)s OR ordinal = %(ordinal)s ORDER BY ordinal
    """
    row = {"snapshot": snapshot, "ordinal": from_ordinal, "max_bytes": max_bytes}
    return [row[0] for row in connection.execute(query, row, binary=True).fetchall()]
