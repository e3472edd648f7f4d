"""Requests to a token endpoint, and their answers (RFC 6749, section 4.4).  Pure.

As in Kafka, id and secret are in the header Authorization, and the token may be in access_token or
in id_token.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final
from urllib.parse import quote_plus

import msgspec

from tidegate_runtime.http.values import Headers, HttpAnswer

from ..errors import AuthenticationFailed, TokenUnavailable
from ..properties.bearer_credentials import (
    CLIENT_ID,
    CLIENT_SECRET,
    ENDPOINT,
    SCOPE,
    BearerCredentials,
)
from .bearer import shown

_GOOD: Final = (200, 201)
_FINAL: Final = frozenset({*range(300, 408), *range(409, 418), 501, 505})
"""Another try would get the same answer."""
_ADVICE: Final = {
    "invalid_client": f"check {CLIENT_ID} and {CLIENT_SECRET}",
    "unauthorized_client": "let the provider allow the grant client_credentials to this client",
    "unsupported_grant_type": "let the provider allow the grant client_credentials",
    "invalid_scope": f"check {SCOPE}",
}
_NO_ERROR: Final = {
    401: _ADVICE["invalid_client"],
    403: _ADVICE["invalid_client"],
}


def token_request(credentials: BearerCredentials) -> tuple[Headers, bytes]:
    """Return headers and body of the POST."""
    headers = (
        ("accept", "application/json"),
        ("authorization", f"Basic {_login(credentials)}"),
        ("cache-control", "no-cache"),
        ("content-type", "application/x-www-form-urlencoded"),
    )
    # If is_urlencoded is off, the scope may be encoded already.
    scope = credentials.scope.replace(" ", "+")
    if credentials.is_urlencoded:
        scope = quote_plus(credentials.scope)
    return headers, f"grant_type=client_credentials{scope and f'&scope={scope}'}".encode()


def _login(credentials: BearerCredentials) -> str:
    """Return id and secret for Basic authentication."""
    pair = credentials.client_id, credentials.client_secret.reveal()
    if credentials.is_urlencoded:
        pair = quote_plus(pair[0]), quote_plus(pair[1])
    return b64encode(":".join(pair).encode()).decode()


def token_in(answer: HttpAnswer, credentials: BearerCredentials) -> str:
    """Return the token in the endpoint's answer.

    Raises:
      AuthenticationFailed: the endpoint refuses; an operator must change something.
      TokenUnavailable: it has no token now.
    """
    said = _object(answer.body)
    if answer.status in _GOOD:
        for name in ("access_token", "id_token"):
            token = said.get(name)
            if isinstance(token, str) and token.strip():
                return token.strip()
        raise AuthenticationFailed(
            f"{credentials.place} answers without access_token: check {ENDPOINT}."
        )
    reason = f"{credentials.place} gives {credentials.who} no token ({_why(answer, said)}"
    if _has_secret(credentials, said):
        reason = f"{credentials.place} gives no token (HTTP {answer.status}"
    if answer.status not in _FINAL:
        raise TokenUnavailable(f"{reason}); it is asked again.")
    raise AuthenticationFailed(f"{reason}): {_advice(answer.status, said)}.")


def _has_secret(credentials: BearerCredentials, said: dict[str, Any]) -> bool:
    """Return whether the answer repeats the secret; shown() could print a part of that."""
    secret = credentials.client_secret.reveal()
    forms = (secret, quote_plus(secret), _login(credentials))
    texts = [each for each in said.values() if isinstance(each, str)]
    return any(form in text for form in forms for text in texts)


def _object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _why(answer: HttpAnswer, said: dict[str, Any]) -> str:
    """Return the error in the form of RFC 6749 (5.2), or of some providers."""
    for name, about in (("error", "error_description"), ("errorCode", "errorSummary")):
        found = [said.get(name), said.get(about)]
        words = [shown(each) for each in found if isinstance(each, str) and each.strip()]
        if words:
            return f"HTTP {answer.status}, {': '.join(words)}"
    return f"HTTP {answer.status}"


def _advice(status: int, said: dict[str, Any]) -> str:
    known = _ADVICE.get(str(said.get("error")))
    return known or _NO_ERROR.get(status) or f"check {ENDPOINT}"
