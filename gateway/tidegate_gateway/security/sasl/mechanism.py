"""A SASL mechanism, as the exchange sees it: steps of bytes, then a user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


class Refused(Exception):
    """The client is refused; its text is for the client.  why: for the gateway's own log."""

    def __init__(self, text: str, why: str = "") -> None:
        super().__init__(text)
        self.why = why or text


class InvalidCredentials(Exception):
    """The client is refused, and must not learn why.  The text is for the gateway's own log."""


class NotYet(Exception):
    """The client's token can be judged after a wait: then the same step is taken again.

    wait: ends within seconds.
    """

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.wait = wait


class Conversation(Protocol):
    """One authentication by one mechanism.

    user: None until the client has proved who it is.  lasts_seconds: how long the proof is good
    from then on; infinite if it has no end of its own.  why_refused: why the last step ended in a
    challenge that only says no, for the gateway's own log; "" if it did not.  token_id: of the
    delegation token that the client names, once one that is good has that name; else None.
    """

    @property
    def user(self) -> str | None:
        """See the class."""
        ...

    @property
    def lasts_seconds(self) -> float:
        """See the class."""
        ...

    @property
    def why_refused(self) -> str:
        """See the class."""
        ...

    @property
    def token_id(self) -> str | None:
        """See the class."""
        ...

    def step(self, token: bytes) -> bytes:
        """Take the client's next token; return the challenge for it, which may be empty.

        Raises:
          Refused, InvalidCredentials: the exchange has failed.
          NotYet: see there; nothing has changed.
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
