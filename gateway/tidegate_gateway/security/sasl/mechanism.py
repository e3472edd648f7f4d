"""A SASL mechanism, as the exchange sees it: tokens and challenges, and at the end a user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


class Refused(Exception):
    """The client is refused; the error's text is for the client.

    why: the reason, for the gateway's own log.
    """

    def __init__(self, text: str, why: str = "") -> None:
        super().__init__(text)
        self.why = why or text


class InvalidCredentials(Exception):
    """The client is refused, and must not learn why.  The text is for the gateway's own log."""


class NotYet(Exception):
    """The client's token can be judged after a wait: then the same step is taken again.

    wait: a function that returns within seconds.
    """

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.wait = wait


class Conversation(Protocol):
    """One authentication by one mechanism.

    user: None until the client has proved who it is.  lasts_seconds: how long the proof is valid
    from then on; infinite if it does not expire. why_refused: if the last step refused the client
    with a challenge, the reason for the gateway's own log; otherwise "". token_id: the id of the
    delegation token that the client names, once a valid token with this id is found; else None.
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
          NotYet: see there; the conversation has not changed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism that a listener offers.

    name: as on the wire.  max_session_ms: how long a session lasts (connections.max.reauth.ms); 0
    for no end.
    """

    name: str
    begin: Callable[[], Conversation]
    max_session_ms: int = 0
