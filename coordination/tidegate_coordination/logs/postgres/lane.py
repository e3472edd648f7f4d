"""Calls to PostgreSQL from Trio: one connection, one call at a time, each with its deadline."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import psycopg
import trio

from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable
from tidegate_coordination.logs.postgres import statements as statements
from tidegate_coordination.logs.postgres.errors import translated_errors
from tidegate_coordination.logs.postgres.session import Connection, Session
from tidegate_coordination.logs.postgres.url import Address

CALL_SECONDS: Final = 10.0
# One thread works; others may still be connecting for abandoned calls.
_THREADS: Final = 4

_T = TypeVar("_T")


class Lane:
    """If a session raised or was abandoned, the next call opens a new one.

    `is_patient`: the log has been opened, so an error that looks like a refusal counts as an
    outage: servers answer the same during a fail-over, or while a password is changed. `greet`: see
    Session.
    """

    def __init__(
        self, address: Address, greet: Callable[[Connection], None], *, is_patient: bool
    ) -> None:
        self.is_patient = is_patient
        self._address = address
        self._greet = greet
        self._turn = trio.Lock()
        self._threads = trio.CapacityLimiter(_THREADS)
        self._session: Session | None = None
        self._waits_on: Connection | None = None  # in the loop, by a task that may not be this one
        self._is_closed = False

    async def call(self, doing: str, work: Callable[[Connection], _T]) -> _T:
        """Run `work` in a thread.

        Raises:
            LogUnavailable: the outcome is unknown.
            LogMisconfigured: refused.
        """

        async def in_thread(session: Session) -> _T:
            return await self._in_thread(lambda: session.run(doing, work))

        return await self._in_turn(doing, in_thread)

    async def ask(
        self, doing: str, statement: statements.Statement, values: Sequence[bytes]
    ) -> list[statements.Row]:
        """Return the rows of one statement, asked without a thread once there is a connection.

        Raises:
            LogUnavailable, LogMisconfigured: as call().
        """

        async def in_loop(session: Session) -> list[statements.Row]:
            while (connection := session.ready) is None:
                await self._in_thread(session.connect)
            with translated_errors(self._address, doing):
                try:
                    self._waits_on = connection
                    return await statements.ask(
                        connection.pgconn, statement, values, session.prepared
                    )
                except trio.ClosedResourceError:
                    raise psycopg.OperationalError("the call was abandoned") from None
                finally:
                    self._waits_on = None

        return await self._in_turn(doing, in_loop)

    async def _in_turn(self, doing: str, step: Callable[[Session], Awaitable[_T]]) -> _T:
        with trio.move_on_after(CALL_SECONDS):
            async with self._turn:
                try:
                    return await self._once(step)
                except LogMisconfigured as refusal:
                    if not self.is_patient:
                        raise
                    raise LogUnavailable(str(refusal)) from None
        raise LogUnavailable(f"{self._address.shown} did not {doing} within {CALL_SECONDS:g} s")

    async def _once(self, step: Callable[[Session], Awaitable[_T]]) -> _T:
        if self._is_closed:
            raise LogUnavailable(f"{self._address.shown} is closed")
        session = self._session = self._session or Session(self._address, self._greet)
        is_done = False
        try:
            result = await step(session)
            is_done = True
            return result
        finally:
            if not is_done:
                self.drop()

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await trio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    def drop(self) -> None:
        """Drop the connection; the next call makes another."""
        if self._waits_on is not None:
            trio.lowlevel.notify_closing(self._waits_on.fileno())
        if self._session is not None:
            self._session.give_up()
            self._session = None

    def close(self) -> None:
        """Release the connection for ever; a call under way ends."""
        self._is_closed = True
        self.drop()
