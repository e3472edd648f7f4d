"""Calls to DynamoDB from Trio: boto3 in threads, each call with its deadline.

boto3 itself repeats no call here.  boto3's own idempotency token is for one attempt, since not
every server recognises a repeated token.  This client repeats only throttled calls, which certainly
had no effect.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import trio

from tidegate_coordination.log.metadata_log import LogCorrupt, LogMisconfigured, LogUnavailable
from tidegate_coordination.logs.dynamodb.errors import (
    KNOWN_ERRORS,
    Kind,
    advice,
    check_answer,
    kind_of,
    told,
)
from tidegate_coordination.logs.dynamodb.url import Address

CALL_SECONDS: Final = 10.0
_CONNECT_SECONDS: Final = 3
_ANSWER_SECONDS: Final = 5
_THREADS: Final = 16
_FIRST_PAUSE_SECONDS: Final = 0.02
_LAST_PAUSE_SECONDS: Final = 1.0

_T = TypeVar("_T")


class ConditionFailed(Exception):
    """A condition does not hold: nothing was done. The cause is boto3's error."""


class NoTable(Exception):
    """The table does not exist."""


class Client:
    """One client of boto3, which may be called by several threads.

    `is_patient`: the log has been opened, so an error that looks like a refusal counts as an
    outage. `make`: makes boto3's client; it may block. `in_loop`: without threads, for a client
    that does not block.
    """

    def __init__(
        self, address: Address, make: Callable[[Address], Any], *, in_loop: bool = False
    ) -> None:
        self.address = address
        self.is_patient = False
        self._make = make
        self._in_loop = in_loop
        self._threads = trio.CapacityLimiter(_THREADS)
        self._client: Any = None

    async def connect(self) -> None:
        """Make the client, which reads files and may ask for credentials.

        Raises:
            LogMisconfigured, LogUnavailable: as call().
        """

        async def make() -> None:
            self._client = await self._in_thread(lambda: self._make(self.address))

        await self._in_time("connect", make)

    async def call(self, doing: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """Call an operation of DynamoDB, such as `get_item`; repeat it while it is throttled.

        Raises:
            LogUnavailable: the outcome is unknown.
            LogMisconfigured: refused.
            ConditionFailed, NoTable: not done.
        """

        async def ask() -> Mapping[str, Any]:
            method: Callable[..., Mapping[str, Any]] = getattr(self._client, operation)
            return await self._in_thread(partial(method, **arguments))

        return await self._in_time(doing, ask)

    async def _in_time(self, doing: str, attempt: Callable[[], Awaitable[_T]]) -> _T:
        pause_seconds, reason = _FIRST_PAUSE_SECONDS, ""
        with trio.move_on_after(CALL_SECONDS):
            while True:
                try:
                    return await attempt()
                except KNOWN_ERRORS as error:
                    reason = self._busy(doing, error)
                await trio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _LAST_PAUSE_SECONDS)
        text = f"{self.address.shown} did not {doing} within {CALL_SECONDS:g} s"
        raise LogUnavailable(f"{text}: {reason}" if reason else text)

    def _busy(self, doing: str, error: Exception) -> str:
        """Return the text of an error if the call should be repeated; else raise ours."""
        kind, text = kind_of(error), f"{self.address.shown} could not {doing}: {told(error)}"
        if kind is Kind.BUSY:
            return told(error)
        if kind is Kind.CONDITION:
            raise ConditionFailed from error
        if kind is Kind.NO_TABLE:
            raise NoTable from error
        if kind is Kind.REFUSED and not self.is_patient:
            raise LogMisconfigured("; ".join(filter(None, (text, advice(error))))) from error
        raise LogUnavailable(text) from error

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._in_loop:
            await trio.lowlevel.checkpoint()
            return work()
        return await trio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    def lost_table(self) -> LogCorrupt:
        return LogCorrupt(
            f"{self.address.shown}: the table was deleted, or the URL leads to another place:"
            " restore the log with `tidegate log restore`"
        )

    async def aclose(self) -> None:
        if self._client is not None:
            self._client.close()
        await trio.lowlevel.checkpoint()


def boto3_client(address: Address) -> Any:
    """Return boto3's client for an address.

    Without machine_role=true, boto3 does not ask the instance metadata address, which outside of a
    cloud may belong to any host.
    """
    import boto3
    from botocore.config import Config
    from botocore.session import Session

    session: Any = Session()
    if not address.machine_role:
        session.get_component("credential_provider").remove("iam-role")
    connect: Any = boto3
    client = connect.Session(botocore_session=session).client(
        "dynamodb",
        region_name=address.region or os.environ.get("AWS_REGION") or None,
        endpoint_url=address.endpoint or None,
        config=Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_ANSWER_SECONDS,
            max_pool_connections=_THREADS,
            tcp_keepalive=True,
            retries={"total_max_attempts": 1, "mode": "standard"},
        ),
    )
    client.meta.events.register("before-parse.dynamodb", check_answer)
    return client
