"""One connection to PostgreSQL, used by one thread at a time, that can be abandoned at any moment.

To abandon it, its socket is shut down, so the thread that waits on it ends at once. The connection
is then closed, and never used again: its state is unknown.
"""

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg

from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable
from tidegate_coordination.logs.postgres.errors import translated_errors
from tidegate_coordination.logs.postgres.url import Address

Connection = psycopg.Connection[tuple[Any, ...]]
_T = TypeVar("_T")

# The server ends a statement before the caller's deadline (lane.CALL_SECONDS), which frees locks.
_SETTINGS: Final = {
    "statement_timeout": "8s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
    "default_transaction_isolation": "read committed",
}
_SET_UP: Final = "SELECT set_config('search_path', quote_ident(%s), false)" + "".join(
    f", set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items()
)
_STATE: Final = (
    "SELECT pg_is_in_recovery(), current_setting('transaction_read_only'),"
    " current_setting('fsync'), current_setting('synchronous_commit')"
)


def _connect(address: Address) -> Connection:
    parameters: dict[str, Any] = dict(address.parameters)
    return psycopg.connect(autocommit=True, **parameters)


def _set_up(connection: Connection, address: Address) -> None:
    """Check that commits on this connection are durable.

    Raises:
        psycopg.Error: the caller translates it.
        LogMisconfigured: commits are not durable, or the server accepts none.
    """
    connection.execute(_SET_UP.encode(), (address.schema,))
    _make_durable(connection, address)


def _make_durable(connection: Connection, address: Address) -> None:
    row = connection.execute(_STATE).fetchone()
    assert row is not None
    in_recovery, read_only, fsync, synchronous_commit = row
    if in_recovery or read_only == "on":
        kind = "a standby" if in_recovery else "set read-only (default_transaction_read_only)"
        raise LogMisconfigured(
            f"{address.shown} takes no writes: the server is {kind}; name the primary, or all"
            " servers as HOST1,HOST2"
        )
    if fsync != "on":
        raise LogMisconfigured(
            f"{address.shown} runs with fsync=off: acknowledged entries would not survive a power"
            " cut. Set fsync=on in postgresql.conf"
        )
    if synchronous_commit == "off":  # set for the role or the database; stronger values stay
        connection.execute("SET synchronous_commit TO on")


class Session:
    """Connects when it is first used.

    `greet`: checks a new connection before it is used.
    """

    def __init__(self, address: Address, greet: Callable[[Connection], None]) -> None:
        self._address = address
        self._greet = greet
        self._guard = threading.Lock()
        self._is_running = False
        self._is_given_up = False
        self._connection: Connection | None = None
        self._line: socket.socket | None = None
        self.prepared: set[bytes] = set()  # names of prepared statements on this connection

    @property
    def ready(self) -> Connection | None:
        """Return the connection, for the loop while nothing runs; None if one must be made."""
        connection = self._connection
        return None if connection is None or _is_stale(connection) else connection

    def connect(self) -> None:
        """See that there is a connection; blocks, as run() does."""
        self.run("connect", lambda _: None)

    def run(self, doing: str, work: Callable[[Connection], _T]) -> _T:
        """Do the work here, in this thread."""
        with self._guard:
            if self._is_given_up:
                raise self._unwanted()
            self._is_running = True
        try:
            with translated_errors(self._address, doing):
                return work(self._connected())
        finally:
            with self._guard:
                self._is_running = False
                if self._is_given_up:
                    self._close()

    def give_up(self) -> None:
        """Never use it again; from any thread, at any time."""
        with self._guard:
            self._is_given_up = True
            if not self._is_running:
                self._close()
            elif self._line is not None:
                _hang_up(self._line)

    def _connected(self) -> Connection:
        if self._connection is not None and not _is_stale(self._connection):
            return self._connection
        with self._guard:
            self._close()
            self.prepared.clear()
        connection = _connect(self._address)
        with self._guard:
            self._connection = connection
            # A duplicate of the socket, because libpq may close its own at any time.
            self._line = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
            if self._is_given_up:
                raise self._unwanted()
        _set_up(connection, self._address)
        self._greet(connection)
        return connection

    def _unwanted(self) -> LogUnavailable:
        return LogUnavailable(f"{self._address.shown}: the call was abandoned")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._line is not None:
            self._line.close()
        self._connection = self._line = None


def _is_stale(connection: Connection) -> bool:
    """Return whether the connection is closed, or bytes have arrived.

    Between statements a server only says that it ends.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):  # it is down already
        line.shutdown(socket.SHUT_RDWR)
