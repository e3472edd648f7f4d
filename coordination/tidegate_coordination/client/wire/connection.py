"""One connection to one broker: many calls at a time, answered in order.

`open_connection` dials, asks for the broker's versions and authenticates, all within
socket.connection.setup.timeout.ms.  Then a task of the owner's nursery receives answers, and calls
send their requests themselves, one after another.  A call that gets no answer in time closes the
connection, since each later answer would be as late.  A breach of the protocol closes it, too. All
waiting calls then fail at once.

If a call is cancelled after it sent its request, the connection stays open, and the answer is
dropped when it arrives.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from itertools import count
from typing import Any, Final, TypeAlias

import trio

from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.frames import LENGTH_BYTES
from tidegate_protocol.headers import encode_request_header
from tidegate_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidegate_runtime.tls.contexts import tls_reason

from ..errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClassicError,
    Disconnected,
    Refused,
    Unsupported,
)
from ..login.logins import Logins
from ..login.sasl import Login
from ..properties.client import Address, ClientProperties
from .answer_reader import AnswerReader
from .dialling import Dial, dialled
from .slots import Slot, Slots
from .versions import (
    ANY_VERSION,
    BrokerVersions,
    broker_versions,
    choose_version,
    key_of,
    messages_of,
    version_to_ask_again,
)

DEFAULT_MAX_ANSWER_BYTES: Final = 128 << 20
# Requests that wait for answers on one connection; the next call waits, within its deadline.
MAX_IN_FLIGHT: Final = 64
# A broker closes a session at the end of its lifetime; the Java client renews at this share
# (KIP-368).
SESSION_SHARE: Final = 0.85
# A broker that throttles does not read our next request for this long at most.
MAX_THROTTLE_SECONDS: Final = 60.0
_LARGE_BODY_BYTES: Final = 64 << 10
_SMALL_RECEIVE_BYTES: Final = 64 << 10
_LARGE_RECEIVE_BYTES: Final = 256 << 10
_SOFTWARE: Final = "tidegate"  # KIP-511 allows letters, digits, "-" and "."

MakeRequest: TypeAlias = Callable[[int], Any]
"""The chosen version -> a request, for requests that differ between versions."""


async def open_connection(
    nursery: trio.Nursery,
    dial: Dial,
    broker: Address,
    properties: ClientProperties,
    *,
    logins: Logins | None = None,
    max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
) -> BrokerConnection:
    """Return a connection on which requests may be sent.

    Args:
      nursery: owns the task that receives; cancelling it closes the connection.
      logins: what to log in with; None for the user in the properties.
      max_answer_bytes: a longer answer closes the connection.

    Raises:
      BrokerUnreachable: no broker answered in time.
      AuthenticationFailed: the broker or a token endpoint refused the credentials, or TLS failed.
      Unsupported, Refused: the broker cannot or will not serve this client.
    """
    logins = logins or Logins(properties)
    login = await logins.next()
    seconds = properties.connection_setup_timeout_seconds
    with trio.move_on_after(seconds):
        stream = await dialled(dial, broker)
        connection = BrokerConnection(broker, stream, properties, max_answer_bytes)
        try:
            nursery.start_soon(connection.receive)
        except RuntimeError as error:  # the nursery is closed: its owner has ended
            await trio.aclose_forcefully(stream)
            raise BrokerUnreachable("the client of this cluster is closed.") from error
        try:
            await connection.set_up(logins, login)
        except BaseException as error:
            connection.close()
            if isinstance(error, Disconnected):
                raise BrokerUnreachable(str(error)) from error
            raise
        return connection
    raise BrokerUnreachable(f"{broker} was not ready for requests within {seconds:g} s.")


class BrokerConnection:
    """See the module's head.  Made by `open_connection`."""

    def __init__(
        self,
        broker: Address,
        stream: trio.abc.Stream,
        properties: ClientProperties,
        max_answer_bytes: int,
    ) -> None:
        self.broker = broker
        self.versions: BrokerVersions = {}
        self._stream = stream
        self._properties = properties
        self._max_answer_bytes = max_answer_bytes
        self._numbers = count(1)
        self._slots = Slots()
        self._sending = trio.Lock()
        self._has_room = trio.Event()
        self._receiving = trio.CancelScope()
        self._is_gone = trio.Event()
        self._reason = ""  # of the close; "" while the connection is open
        self._is_retired = False
        self._is_used = False  # a request other than ApiVersions was answered
        self._session_ends_at = float("inf")
        self._throttled_until = 0.0

    @property
    def is_open(self) -> bool:
        """Return whether calls may still succeed."""
        return not self._reason and not self._is_retired

    @property
    def is_expiring(self) -> bool:
        """Return whether the broker will soon close the session; open another connection."""
        return trio.current_time() >= self._session_ends_at

    def version(self, name: str, *, min_version: int = 0, max_version: int = ANY_VERSION) -> int:
        """Return the version that `call` would choose.

        Raises:
          Unsupported: there is no such version.
        """
        try:
            return choose_version(
                name, self.versions, min_version=min_version, max_version=max_version
            )
        except Unsupported as error:
            raise Unsupported(f"{self.broker}: {error}") from None

    async def call(
        self,
        name: str,
        request: Any | MakeRequest,
        *,
        min_version: int = 0,
        max_version: int = ANY_VERSION,
        wait_seconds: float = 0.0,
        client_id: str | None = None,
    ) -> Any:
        """Send a request and return its response.

        Error codes in the response are the caller's.  A Produce with acks=0 gets no answer, so it
        must not be sent.

        Args:
          name: the name of the API, such as "Fetch".
          request: a request of that API, or a function from the version to a request.
          wait_seconds: how long the broker may wait before it answers, beside request.timeout.ms.
          client_id: the id of the client for which this is sent; None for client.id.

        Raises:
          Unsupported: no version is common to the broker, this client and the caller.
          BrokerUnreachable: the connection is closed; the request was not sent.
          Disconnected: the connection closed, or no answer came in time; the outcome is unknown.
        """
        slot = await self.begin(
            name,
            request,
            min_version=min_version,
            max_version=max_version,
            wait_seconds=wait_seconds,
            client_id=client_id,
        )
        return await self.answer_to(slot)

    async def begin(
        self,
        name: str,
        request: Any | MakeRequest,
        *,
        min_version: int = 0,
        max_version: int = ANY_VERSION,
        wait_seconds: float = 0.0,
        client_id: str | None = None,
    ) -> Slot:
        """Send a request, after all requests that began before it; return its place.

        Arguments as for `call`.  The request's bytes are not used any more after that.

        Raises:
          Unsupported, BrokerUnreachable: see `call`; the request was not sent.
        """
        chosen = self.version(name, min_version=min_version, max_version=max_version)
        made = request(chosen) if callable(request) else request
        return await self._begin(name, chosen, made, wait_seconds, client_id)

    async def answer_to(self, slot: Slot) -> Any:
        """Return the response to a request that has begun.

        Raises:
          Disconnected: see `call`.
        """
        with trio.move_on_at(slot.latest):
            await slot.settled.wait()
        if not slot.settled.is_set():
            self._close(f"{self.broker} did not answer {slot.name} within {slot.seconds:g} s")
        return slot.response()

    async def _call(self, name: str, chosen: int, request: Any) -> Any:
        return await self.answer_to(await self._begin(name, chosen, request))

    async def _begin(
        self,
        name: str,
        chosen: int,
        request: Any,
        wait_seconds: float = 0.0,
        client_id: str | None = None,
    ) -> Slot:
        muted = max(0.0, self._throttled_until - trio.current_time())
        seconds = self._properties.request_timeout_seconds + wait_seconds + muted
        slot = Slot(name, chosen, next(self._numbers), seconds, trio.current_time() + seconds)
        if client_id is None:
            client_id = self._properties.client_id
        head = encode_request_header(key_of(name), chosen, slot.number, client_id=client_id)
        body = messages_of(name).encode_request(request, chosen)
        length = (len(head) + len(body)).to_bytes(LENGTH_BYTES, "big")
        # One copy of a large body is enough.
        is_large = len(body) >= _LARGE_BODY_BYTES
        parts = (length + head, body) if is_large else (b"".join((length, head, body)),)
        with trio.move_on_at(slot.latest):
            await self._send(slot, parts)
        if not slot.is_sent:
            reason = f"{self.broker} did not answer {name} within {seconds:g} s"
            raise BrokerUnreachable(f"{reason}, as it did not answer earlier requests.")
        return slot

    async def _send(self, slot: Slot, parts: tuple[bytes | bytearray, ...]) -> None:
        """Send a request, after all requests before it."""
        async with self._sending:
            while len(self._slots) >= MAX_IN_FLIGHT and self.is_open:
                self._has_room = trio.Event()
                await self._has_room.wait()
            if not self.is_open:
                reason = self._reason or f"the connection to {self.broker} is being replaced"
                raise BrokerUnreachable(f"{reason}; {slot.name} was not sent.")
            self._slots.append(slot)
            try:
                for part in parts:
                    await self._stream.send_all(part)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self._close_for(error)
            except trio.Cancelled:
                # The broker would read the next request as the rest of this one.
                self._close(f"{self.broker} did not take {slot.name} to its end")
                raise

    # -- set up -----------------------------------------------------------------------------------

    async def set_up(self, logins: Logins, login: Login | None) -> None:
        """Ask for the broker's versions, and authenticate."""
        self.versions = broker_versions(await self._greeting())
        if login is None:
            return
        lifetime_seconds = await logins.log_in(self.call, self.broker, login)
        if lifetime_seconds:
            self._session_ends_at = trio.current_time() + SESSION_SHARE * lifetime_seconds

    async def _greeting(self) -> ApiVersionsResponse:
        request = ApiVersionsRequest(_SOFTWARE, _software_version())
        newest = APIS[ApiKey.API_VERSIONS].max_version
        response: ApiVersionsResponse = await self._call("ApiVersions", newest, request)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            again = version_to_ask_again(response)
            response = await self._call("ApiVersions", again, request)
        if response.error_code:
            raise Refused(f"{self.broker} refused ApiVersions", response.error_code)
        return response

    # -- receiving --------------------------------------------------------------------------------

    async def receive(self) -> None:
        """Receive answers until the connection closes; the task of `open_connection`."""
        try:
            with self._receiving:
                await self._read_answers()
        finally:
            self._close(f"the connection to {self.broker} was closed here")
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)
            self._is_gone.set()

    async def _read_answers(self) -> None:
        reader = AnswerReader(self._max_answer_bytes)
        try:
            while not self._reason:
                wanted = max(_SMALL_RECEIVE_BYTES, reader.missing_bytes)
                data = await self._stream.receive_some(min(wanted, _LARGE_RECEIVE_BYTES))
                if not data:
                    return self._close(f"{self.broker} closed the connection{self._hint()}")
                for each in reader.receive(data):
                    self._settle(each)
        except RemoteProtocolError as error:
            self._close(f"{self.broker} broke the protocol ({error})")
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._close_for(error)

    def _settle(self, answer: memoryview) -> None:
        slot = self._slots.settle(answer)
        self._is_used = self._is_used or slot.name != "ApiVersions"
        throttle_ms = getattr(slot.response(), "throttle_time_ms", 0)
        if throttle_ms > 0:
            seconds = min(throttle_ms / 1000, MAX_THROTTLE_SECONDS)
            self._throttled_until = trio.current_time() + seconds
        self._has_room.set()
        if self._is_retired and not self._slots:
            self.close()

    def _hint(self) -> str:
        """Return why brokers close a new connection."""
        if not self.versions and self._properties.tls is not None:
            return ", as brokers do that expect a client's certificate: check ssl.keystore.location"
        if self._is_used or not self.versions or self._properties.sasl is not None:
            return ""
        return " at the first request, as listeners do that expect SASL: check security.protocol"

    # -- closing ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close at once; waiting calls fail.  The socket closes a moment later."""
        self._close(f"the connection to {self.broker} was closed here")

    def retire(self) -> None:
        """Accept no new calls, and close once all sent requests are answered."""
        self._is_retired = True
        self._has_room.set()
        if not self._slots:
            self.close()

    async def aclose(self) -> None:
        """Close, and wait until the socket is closed."""
        self.close()
        await self._is_gone.wait()

    def _close_for(self, error: Exception) -> None:
        if isinstance(error.__cause__, ssl.SSLError):
            reason = f"{self.broker} ended TLS ({tls_reason(error.__cause__)})"
            return self._close(f"{reason}: check ssl.keystore.location", AuthenticationFailed)
        return self._close(f"{self.broker} broke the connection{self._hint()}")

    def _close(self, reason: str, error: type[ClassicError] = Disconnected) -> None:
        if self._reason:
            return
        self._reason = reason
        self._slots.fail(reason, error)
        self._has_room.set()
        self._receiving.cancel()


@cache
def _software_version() -> str:
    """Read from a file, once."""
    return version(_SOFTWARE)
