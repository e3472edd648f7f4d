"""Checks that a server still has the entries that this gateway has seen.

If a standby did not have to confirm the last entries, it may lack them when it takes over. Other
gateways may append to the standby, so the log's length proves nothing. So on every new connection a
gateway looks for the last entry that it has seen. A gateway can reach another server only by a new
connection.
"""

from tidegate_coordination.log.metadata_log import LogCorrupt, LogEntry
from tidegate_coordination.logs.postgres.session import Connection
from tidegate_coordination.logs.postgres.tables import checksum_at, checksum_of


class History:
    """The newest entry that is known to be in the log; set in the loop, checked in threads."""

    def __init__(self) -> None:
        self._newest: LogEntry | None = None

    def note(self, entry: LogEntry) -> None:
        if self._newest is None or entry.position > self._newest.position:
            self._newest = entry

    def check(self, connection: Connection) -> None:
        """Raises LogCorrupt if the entry is missing, or has other bytes."""
        newest = self._newest
        if newest is None:
            return
        trimmed, checksum = checksum_at(connection, newest.position)
        if newest.position > trimmed and checksum != checksum_of(newest):
            raise LogCorrupt(
                f"entry {newest.position} is not in the PostgreSQL log any more, or is another one:"
                " did a standby take over that lacked it? Restore the log with"
                " `tidegate log restore`"
            )
