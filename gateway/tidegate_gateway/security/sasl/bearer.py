"""OAUTHBEARER (RFC 7628, KIP-255), the server's side.  Pure.

The client sends its token in one message.  The gateway answers a refused token with a challenge,
the client answers the challenge with one byte, and then the exchange fails.  As with Kafka, the
client may send another token instead, but only a few times, since each token costs a check of its
signature.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from typing import Final

from ..oauth.token_check import BadToken, BearerToken
from .mechanism import InvalidCredentials, Refused

CheckToken = Callable[[str], BearerToken]
"""Raises BadToken, NotYet."""

_SEPARATOR: Final = "\x01"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS: Final = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01", re.DOTALL)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-._~+/a-zA-Z0-9]+=*)", re.ASCII)
MAX_REFUSED: Final = 2
"""So many tokens of a conversation are answered with a challenge."""
_MAX_ID: Final = 255
_REFUSAL: Final = '{"status":"invalid_token"}'


class BearerConversation:
    """See the module's head.

    why_refused: why the last token was refused; "" if it was not refused.

    Args:
      check: the check of a token.
      now: seconds since 1970.
    """

    def __init__(self, check: CheckToken, now: Callable[[], float]) -> None:
        self.user: str | None = None
        self.lasts_seconds = inf
        self.token_id: str | None = None
        self._check = check
        self._now = now
        self.why_refused = ""
        self._refused = 0

    def step(self, token: bytes) -> bytes:
        """See Conversation."""
        if self.why_refused and token == _SEPARATOR.encode():
            raise Refused(_REFUSAL, self.why_refused)
        self.why_refused = ""
        authorization_id, bearer = _read_first(token)
        try:
            found = self._check(bearer)
        except BadToken as error:
            self._refused += 1
            if self._refused > MAX_REFUSED:
                raise Refused(_REFUSAL, str(error)) from None
            self.why_refused = str(error)
            return _REFUSAL.encode()
        if authorization_id not in ("", found.subject):
            shown = authorization_id[:_MAX_ID]
            raise Refused(
                f"Authentication failed: Client requested an authorization id ({shown})"
                f" that is different from the token's principal name ({found.subject})"
            )
        self.user = found.subject
        self.lasts_seconds = max(found.expires_at - self._now(), 0.0)
        return b""


def _read_first(message: bytes) -> tuple[str, str]:
    """Return the authorization id, which may be "", and the token from the client's first message.

    Raises:
      InvalidCredentials: the message has another form.
    """
    first = _FIRST.fullmatch(message.decode(errors="replace"))
    if first is None:
        raise InvalidCredentials("its first message is none of OAUTHBEARER")
    pairs = dict(each.split("=", 1) for each in first["pairs"].split(_SEPARATOR) if each)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise InvalidCredentials("its first message has no bearer token")
    return first["authzid"] or "", auth["token"]
