"""PLAIN (RFC 4616), the server's side.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from tidegate_runtime.secret import Secret

from .mechanism import Refused

IsPassword = Callable[[str, str], bool]
"""(user, password) -> whether the user has it."""


def is_password_in(users: Mapping[str, Secret]) -> IsPassword:
    """Return a function that checks a password against these passwords by user."""

    def check(user: str, password: str) -> bool:
        known = users.get(user)
        # The check of an unknown user takes as long as that of a wrong password.
        found = (known or Secret()).matches(password)
        return found and known is not None

    return check


class PlainConversation:
    """One token: authorization id, user and password, with zero bytes between them.

    The texts of refusals are Kafka's (PlainSaslServer): clients show them.
    """

    def __init__(self, is_password: IsPassword) -> None:
        self.user: str | None = None
        self.lasts_seconds = inf
        self.why_refused = ""
        self.token_id: str | None = None
        self._is_password = is_password

    def step(self, token: bytes) -> bytes:
        """See Conversation."""
        # As in Java, invalid UTF-8 becomes replacement characters.
        parts = token.decode(errors="replace").split("\0", 3)
        if len(parts) != 3:
            raise Refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise Refused("Authentication failed: username not specified")
        if not password:
            raise Refused("Authentication failed: password not specified")
        if not self._is_password(user, password):
            raise Refused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise Refused(
                "Authentication failed: Client requested an authorization id that is different"
                " from username"
            )
        self.user = user
        return b""
