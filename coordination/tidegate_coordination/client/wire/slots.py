"""The places of requests whose answers have not arrived.  Pure but for the event that wakes a call.

A broker answers a connection's requests in their order, so an answer's place tells its request; the
correlation id only confirms that.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any

import trio

from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.headers import decode_response_header

from ..errors import ClassicError, Disconnected
from .versions import key_of, messages_of, read_api_versions


class Slot:
    """One request, and its answer once that has arrived.

    latest: when the call times out, by trio's clock.  seconds: from the beginning to `latest`.
    """

    def __init__(
        self, name: str, version: int, number: int, seconds: float = 0.0, latest: float = inf
    ) -> None:
        self.name = name
        self.version = version
        self.number = number
        self.seconds = seconds
        self.latest = latest
        self.is_sent = False
        self.settled = trio.Event()
        self._response: Any = None
        self._error: ClassicError | None = None

    def response(self) -> Any:
        """Return the answer.

        Raises:
          ClassicError: the call failed.
        """
        if self._error is not None:
            raise self._error
        return self._response

    def settle(self, frame: memoryview) -> None:
        """Take the answer.

        Raises:
          RemoteProtocolError: the frame is no answer to this request.
        """
        number, position = decode_response_header(frame, key_of(self.name), self.version)
        if number != self.number:
            raise RemoteProtocolError(f"it sent answer {number} where {self.number} was next")
        body = frame[position:]
        if self.name == "ApiVersions":
            self._response = read_api_versions(body, self.version)
        else:
            self._response = messages_of(self.name).decode_response(body, self.version)
        self.settled.set()

    def fail(self, error: ClassicError) -> None:
        """Take the error instead of an answer."""
        self._error = error
        self.settled.set()


class Slots:
    """The requests of a connection that wait for answers, in the order in which they were sent."""

    def __init__(self) -> None:
        self._waiting: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, slot: Slot) -> None:
        """Add a request that is being sent."""
        slot.is_sent = True
        self._waiting.append(slot)

    def settle(self, frame: memoryview) -> Slot:
        """Give the next answer to its request; return the request's slot.

        Raises:
          RemoteProtocolError: the broker broke the protocol; close the connection.
        """
        if not self._waiting:
            raise RemoteProtocolError("it sent an answer that no request waits for")
        self._waiting[0].settle(frame)
        return self._waiting.popleft()

    def fail(self, reason: str, error: type[ClassicError]) -> None:
        """Fail all requests, each with a separate error object."""
        unknown = "; the outcome of {} is unknown" if error is Disconnected else ""
        while self._waiting:
            slot = self._waiting.popleft()
            slot.fail(error(f"{reason}{unknown.format(slot.name)}."))
