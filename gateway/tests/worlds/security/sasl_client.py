"""A SASL listener in memory, and clients that authenticate by requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate_protocol.messages import sasl_authenticate as sa
from tidegate_protocol.messages import sasl_handshake as sh

from ..wire_client import WireClient
from .token_provider import ISSUER

LISTENER = "SASL_PLAINTEXT"
PREFIX = "listener.name.sasl_plaintext"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def sasl_settings(
    users: Mapping[str, str] | None = None,
    mechanisms: str = "PLAIN",
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the settings of a listener with these users of PLAIN.  more: with _ for dots."""
    options = " ".join(
        f'user_{name}="{password}"' for name, password in (users or {"alice": "secret"}).items()
    )
    return {
        f"{PREFIX}.sasl.enabled.mechanisms": mechanisms,
        f"{PREFIX}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {options};",
    } | {name.replace("_", "."): text for name, text in (more or {}).items()}


def plain_token(user: str, password: str, authorization_id: str = "") -> bytes:
    """Return the only message of a PLAIN login."""
    return f"{authorization_id}\0{user}\0{password}".encode()


def oauth_settings(**more: str) -> dict[str, str]:
    """Return the settings of an OAUTHBEARER listener.  more: sasl.oauthbearer.*, _ for dots."""
    names = {"jwks_endpoint_url": "https://provider.example/keys", "expected_issuer": ISSUER} | more
    prefix = f"{PREFIX}.oauthbearer.sasl.oauthbearer"
    texts = {f"{prefix}.{name.replace('_', '.')}": text for name, text in names.items() if text}
    return {f"{PREFIX}.sasl.enabled.mechanisms": "OAUTHBEARER"} | texts


async def handshake(
    client: WireClient, mechanism: str = "PLAIN", version: int = 1
) -> sh.SaslHandshakeResponse:
    """Send SaslHandshake with the mechanism."""
    answer: sh.SaslHandshakeResponse
    answer = await client.call("SaslHandshake", version, sh.SaslHandshakeRequest(mechanism))
    return answer


async def authenticate(
    client: WireClient, token: bytes, version: int = 2
) -> sa.SaslAuthenticateResponse:
    """Send SaslAuthenticate with a token."""
    answer: Any = await client.call("SaslAuthenticate", version, sa.SaslAuthenticateRequest(token))
    found: sa.SaslAuthenticateResponse = answer
    return found


async def log_in(client: WireClient, user: str = "alice", password: str = "secret") -> int:
    """Log in by PLAIN; return the session's lifetime in ms."""
    assert (await handshake(client)).error_code == 0
    answer = await authenticate(client, plain_token(user, password))
    assert (answer.error_code, answer.error_message) == (0, "")
    return answer.session_lifetime_ms
