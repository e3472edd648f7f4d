"""The frames that a client sends.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import encode_request_header
from tidegate_protocol.messages import sasl_authenticate as sa
from tidegate_protocol.messages import sasl_handshake as sh

LOGIN: Final = "LOGIN"
"""A listener of PLAIN and SCRAM."""

Answers = Sequence[bytes]
"""The frames that came back so far, without their lengths."""


@dataclass(frozen=True, slots=True)
class Send:
    """A frame to send.  api: key and version of its answer; None: the answer is a bare token.

    pause_ms: how long the client waits before it sends.
    """

    data: bytes | Callable[[Answers], bytes]
    api: tuple[int, int] | None = None
    pause_ms: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One connection."""

    name: str
    steps: tuple[Send, ...]
    listener: str = LOGIN


def request(api: str, version: int, body: Any) -> Send:
    """Return a request of any API, such as "Metadata"."""
    [key] = [each for each, facts in APIS.items() if facts.name == api]
    encoded = module_of(api).encode_request(body, version)
    head = encode_request_header(key, version, 7, client_id="cases")
    return Send(frame(head + encoded), (key, version))


def module_of(api: str) -> Any:
    """Return the module of an API's messages."""
    snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in api)
    return import_module(f"tidegate_protocol.messages.{snake.lstrip('_')}")


def headed(key: int, version: int, body: bytes = b"", *, flexible: bool = False) -> Send:
    """Return a request with this API key and version, which need not exist."""
    head = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    tail = b"\0\5cases" + (b"\0" if flexible else b"")
    return Send(frame(head + bytes([0, 0, 0, 7]) + tail + body), (key, version))


def raw(data: bytes) -> Send:
    """Return a frame of these bytes."""
    return Send(frame(data))


def versions(version: int = 3, name: str = "cases", release: str = "1") -> Send:
    """Return ApiVersions."""
    return request(
        "ApiVersions", version, module_of("ApiVersions").ApiVersionsRequest(name, release)
    )


def shake(mechanism: str, version: int = 1) -> Send:
    """Return SaslHandshake."""
    return request("SaslHandshake", version, sh.SaslHandshakeRequest(mechanism))


def token(data: bytes | Callable[[Answers], bytes], version: int = 2) -> Send:
    """Return SaslAuthenticate."""
    if isinstance(data, bytes):
        return request("SaslAuthenticate", version, sa.SaslAuthenticateRequest(data))
    make = data

    def later(answers: Answers) -> bytes:
        made = token(make(answers), version).data
        assert isinstance(made, bytes)
        return made

    return Send(later, (ApiKey.SASL_AUTHENTICATE, version))


def bare(data: bytes | Callable[[Answers], bytes]) -> Send:
    """Return a token without Kafka's header."""
    if isinstance(data, bytes):
        return Send(frame(data))
    make = data
    return Send(lambda answers: frame(make(answers)))


def after(pause_ms: int, send: Send) -> Send:
    """Return the step, sent after a pause."""
    return Send(send.data, send.api, pause_ms)
