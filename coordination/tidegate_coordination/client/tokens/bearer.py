"""The tokens of OAUTHBEARER as a client sees them (RFC 7628, RFC 7519).  Pure.

A client does not check signatures.  The client reads when a token expires, to get another token
before that.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from math import floor
from typing import Any, Final

import msgspec

from tidegate_runtime.secret import Secret

from ..properties.bearer_credentials import OAUTHBEARER

_SEPARATOR: Final = "\x01"
AGREED: Final = _SEPARATOR.encode()
"""The client's answer to a refusal; then the broker fails the exchange."""
_JWT: Final = re.compile(r"[-_A-Za-z0-9]+\.(?P<payload>[-_A-Za-z0-9]+)\.[-_A-Za-z0-9]+")
_MAX_SHOWN: Final = 200


class _Claims(msgspec.Struct):
    exp: float


class BadToken(Exception):
    """The text is no token that can be used; the words follow "the token"."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token, and how it is sent.

    who: whose it is, for people.  expires_at: seconds since 1970.
    """

    text: Secret
    expires_at: float
    who: str
    extensions: tuple[tuple[str, Secret], ...] = ()
    mechanism: str = OAUTHBEARER

    def first_message(self) -> bytes:
        """Return the client's message."""
        pairs = (f"{name}={value.reveal()}" for name, value in self.extensions)
        parts = ["n,,", f"auth=Bearer {self.text.reveal()}", *pairs, "", ""]
        return _SEPARATOR.join(parts).encode()


def expiry_of(text: str) -> float:
    """Return when a token expires, in whole seconds since 1970, as Kafka has it.

    Raises:
      BadToken: the token is no JWT, or has no expiry.
    """
    found = _JWT.fullmatch(text)
    if found is None:
        raise BadToken("is no JWT")
    payload = found["payload"]
    try:
        content = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return float(floor(msgspec.json.decode(content, type=_Claims).exp))
    except (ValueError, RecursionError):
        raise BadToken("does not say when it expires (exp)") from None


def refusal(text: str, token: Secret) -> str:
    """Return why a broker refuses a token, from its challenge or its error: both may be JSON."""
    signature = token.reveal().rpartition(".")[2]
    if signature in text:
        return "the token is refused (the answer repeats it, and is not shown)"
    try:
        said = msgspec.json.decode(text.encode(), type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return f"the token is refused: {shown(text)}"
    status, scope = said.get("status"), said.get("scope")
    why = shown(status) if isinstance(status, str) and status else "no reason is given"
    asked = f", and scope {shown(scope)} is asked for" if isinstance(scope, str) and scope else ""
    return f"the token is refused ({why}{asked})"


def shown(text: str) -> str:
    """Return a server's text as one short line of printable characters, for a message."""
    words = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return words if len(words) <= _MAX_SHOWN else f"{words[:_MAX_SHOWN]}..."
