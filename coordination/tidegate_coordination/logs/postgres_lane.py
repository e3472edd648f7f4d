"""Calls to PostgreSQL from Trio: one connection, one call at a time, each with its deadline."""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from tidegate_coordination.logs.postgres_session import Connection, Session
from tidegate_coordination.logs.postgres_url import Address
from tidegate_coordination.metadata_log import LogMisconfigured, LogUnavailable

CALL_SECONDS: Final = 10.0
# One works; others may still be connecting for calls that were given up.
_THREADS: Final = 4

_T = TypeVar("_T")


class Lane:
    """A session that raised or was given up is replaced by a new one at the next call.

    `is_patient`: the log was opened once, so what looks like a refusal is an outage: servers say
    the same while they fail over, or while a password is being changed. `greet`: see Session.
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
        self._is_closed = False

    async def call(self, doing: str, work: Callable[[Connection], _T]) -> _T:
        """Run `work` in a thread.

        Raises:
            LogUnavailable: the outcome is unknown.
            LogMisconfigured: refused.
        """
        with trio.move_on_after(CALL_SECONDS):
            async with self._turn:
                try:
                    return await self._once(doing, work)
                except LogMisconfigured as refusal:
                    if not self.is_patient:
                        raise
                    raise LogUnavailable(str(refusal)) from None
        raise LogUnavailable(f"{self._address.shown} did not {doing} within {CALL_SECONDS:g} s")

    async def _once(self, doing: str, work: Callable[[Connection], _T]) -> _T:
        if self._is_closed:
            raise LogUnavailable(f"{self._address.shown} is closed")
        session = self._session = self._session or Session(self._address, self._greet)
        is_done = False
        try:
            result = await trio.to_thread.run_sync(
                session.run, doing, work, limiter=self._threads, abandon_on_cancel=True
            )
            is_done = True
            return result
        finally:
            if not is_done:
                self.drop()

    def drop(self) -> None:
        """Let go of the connection; the next call makes another."""
        if self._session is not None:
            self._session.give_up()
            self._session = None

    def close(self) -> None:
        """Let go of the connection for good; a call under way ends."""
        self._is_closed = True
        self.drop()
