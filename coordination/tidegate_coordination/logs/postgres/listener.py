"""Growth of a PostgreSQL log by LISTEN: an idle gateway sends no queries.

A notification is a hint: every user of the database may send one with any text. If a notification
or its connection is lost, the gateway finds the growth by a query after a few seconds.
"""

from typing import Final

import psycopg
import trio
from psycopg import sql
from psycopg.pq.abc import PGconn

from tidegate_coordination.log.metadata_log import LogUnavailable
from tidegate_coordination.logs.postgres.lane import Lane
from tidegate_coordination.logs.postgres.session import Connection
from tidegate_coordination.logs.postgres.tables import last_position

POLL_SECONDS: Final = 5.0
_POSITION_DIGITS: Final = 19  # of a bigint


class Listener:
    """Listens for one task at a time."""

    def __init__(self, lane: Lane, channel: str) -> None:
        self._lane = lane
        self._channel = channel
        self._ear: PGconn | None = None
        self._overheard: list[psycopg.Notify] = []
        # When the position was last known: waits may be much shorter than POLL_SECONDS.
        self._told_at = 0.0

    async def next_position(self) -> int:
        """Wait for a sign of growth; return a position in the log, which may be known already.

        Raises:
            LogUnavailable: the server does not answer now.
        """
        if self._ear is None:
            self._ear, position = await self._lane.call("listen", self._listen)
        else:
            position = await self._hear_or_ask(self._ear)
        self._told_at = trio.current_time()
        return position

    async def _hear_or_ask(self, ear: PGconn) -> int:
        with trio.move_on_at(self._told_at + POLL_SECONDS):
            return await self._hear(ear)
        return await self._ask()

    def _listen(self, connection: Connection) -> tuple[PGconn, int]:
        # psycopg calls this for notifications that come with the answer of a statement.
        connection.add_notify_handler(self._overheard.append)
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        return connection.pgconn, last_position(connection)

    async def _hear(self, ear: PGconn) -> int:
        try:
            while not (heard := self._heard(ear)):
                await trio.lowlevel.wait_readable(ear.socket)
                ear.consume_input()
        except (psycopg.Error, trio.ClosedResourceError):
            self.stop()
            return 0
        return max(heard)

    def _heard(self, ear: PGconn) -> list[int]:
        heard = [each.payload for each in self._overheard]
        self._overheard.clear()
        while notification := ear.notifies():
            heard.append(notification.extra.decode(errors="replace"))
        return [int(each) for each in heard if _is_position(each)]

    async def _ask(self) -> int:
        try:
            ear, position = await self._lane.call("look for growth", _look)
        except LogUnavailable:
            self.stop()
            raise
        if ear is not self._ear:  # the lane made a new connection, which does not LISTEN
            self.stop()
        return position

    def stop(self) -> None:
        ear, self._ear = self._ear, None
        if ear is not None and ear.status == psycopg.pq.ConnStatus.OK:
            trio.lowlevel.notify_closing(ear.socket)
        self._lane.drop()


def _look(connection: Connection) -> tuple[PGconn, int]:
    return connection.pgconn, last_position(connection)


def _is_position(text: str) -> bool:
    return text.isdecimal() and len(text) <= _POSITION_DIGITS
