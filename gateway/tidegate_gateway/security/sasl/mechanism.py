"""What a SASL mechanism is to the exchange: steps of bytes, then a user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Refused(Exception):
    """The client is refused; its text is for the client."""


class InvalidCredentials(Exception):
    """The client is refused, and must not learn why.  The text is for the gateway's own log."""


class Conversation(Protocol):
    """One authentication by one mechanism.

    user: None until the client has proved who it is.
    """

    @property
    def user(self) -> str | None:
        """See the class."""
        ...

    def step(self, token: bytes) -> bytes:
        """Take the client's next token; return the challenge for it, which may be empty.

        Raises:
          Refused, InvalidCredentials: the exchange has failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism that a listener offers.

    name: as on the wire.  max_session_ms: how long a session lasts (connections.max.reauth.ms);
    0 for ever.
    """

    name: str
    begin: Callable[[], Conversation]
    max_session_ms: int = 0
