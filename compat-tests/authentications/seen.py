"""The compared parts of a broker's answer: API, code, text, mechanisms, token, lateness."""

from __future__ import annotations

import re
from typing import Any, Final

from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.headers import decode_response_header
from tidegate_protocol.messages import api_versions, metadata, sasl_authenticate, sasl_handshake

CLOSED: Final = "closed"
_LONG_MS: Final = 1_000_000_000
_NONCE: Final = re.compile(rb"r=[!-+\--~]+")


def seen(answer: bytes | None, api: tuple[int, int] | None, *, late: bool) -> list[Any]:
    """Return the facts of one answer as JSON has them.

    answer: a frame without its length; None: the broker closed the connection.
    """
    when = ["late"] if late else []
    if answer is None:
        return [CLOSED, *when]
    if api is None:
        return ["token", _token(answer), *when]
    return [*_message(memoryview(answer), *api), *when]


def _message(answer: memoryview, key: int, version: int) -> list[Any]:
    try:
        _, position = decode_response_header(answer, key, version)
        body = answer[position:]
        match key:
            case ApiKey.SASL_HANDSHAKE:
                shaken = sasl_handshake.decode_response(body, version)
                return ["SaslHandshake", shaken.error_code, sorted(shaken.mechanisms)]
            case ApiKey.SASL_AUTHENTICATE:
                got = sasl_authenticate.decode_response(body, version)
                code, text = got.error_code, got.error_message
                return ["SaslAuthenticate", code, text, _token(got.auth_bytes),
                        _lifetime(got.session_lifetime_ms)]  # fmt: skip
            case ApiKey.METADATA:
                found = metadata.decode_response(body, version)
                topics = [[each.name, each.error_code] for each in found.topics]
                return ["Metadata", found.error_code, topics, bool(found.brokers)]
            case ApiKey.API_VERSIONS:
                shown = version if version <= APIS[key].max_version else 0
                listed = api_versions.decode_response(body, shown)
                return ["ApiVersions", listed.error_code, bool(listed.api_keys)]
            case _:
                return [f"API {key}"]
    except RemoteProtocolError:
        return [f"malformed API {key}"]


def _lifetime(milliseconds: int) -> int | str:
    """Return the lifetime, or "long" if it depends on the broker's clock."""
    return milliseconds if milliseconds < _LONG_MS else "long"


def _token(data: bytes) -> str:
    """Return a challenge without the parts that are new each time."""
    if data.startswith(b"v="):
        return "v=..."
    return _NONCE.sub(b"r=...", data).decode(errors="backslashreplace")
