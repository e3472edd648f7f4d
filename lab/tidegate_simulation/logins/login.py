"""One login on one connection, by the bytes that clients send."""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any, Final, NamedTuple

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import metadata
from tidegate_protocol.messages import sasl_authenticate as authenticate
from tidegate_protocol.messages import sasl_handshake as handshake

from ..clients.client import ClientConnection, Disconnected, ProtocolBroken
from ..plans.security.login_plan import LISTENER
from ..world.world import NotReachable, World
from . import scram

PLAIN: Final = "PLAIN"
BEARER: Final = "OAUTHBEARER"
WAIT_SECONDS: Final = 20.0
_AUTHENTICATE_VERSION: Final = 2
_METADATA_VERSION: Final = 12
_REFUSALS: Final = {
    PLAIN: "Authentication failed: Invalid username or password",
    scram.NAME: (
        "Authentication failed during authentication due to invalid credentials with SASL"
        f" mechanism {scram.NAME}"
    ),
    BEARER: '{"status":"invalid_token"}',
}
"""The texts that may answer a client that guesses."""


class Secret(NamedTuple):
    """The secret that a client logs in with.

    password: the token if the mechanism is OAUTHBEARER; it also names the user.  is_token: the user
    is the id of a delegation token.
    """

    mechanism: str
    user: str
    password: str
    is_token: bool = False


class Answer(NamedTuple):
    """The last answer of a login.  at: when it came.  lifetime_ms: of the session; 0: no end.

    is_proved: the gateway has proved that it knows the password, or the mechanism has no proof.
    """

    code: int
    text: str
    lifetime_ms: int
    at: float
    is_proved: bool = True


async def open_connection(world: World, name: str, node_id: int) -> ClientConnection:
    """Return a connection to the listener with logins.

    Raises:
      Disconnected: no connection could be opened.
    """
    try:
        transport = world.nodes[node_id].connect(name, LISTENER)
    except (NotReachable, KeyError) as error:
        await trio.sleep(0.5)
        raise Disconnected from error
    connection = ClientConnection(transport, name)
    world.nursery.start_soon(connection.run)
    return connection


async def ask(
    connection: ClientConnection,
    name: str,
    messages: ModuleType,
    version: int,
    request: Any,
    seconds: float = WAIT_SECONDS,
) -> Any:
    """Send a request and return its response.

    Raises:
      Disconnected: no answer came in time; the connection is closed.
    """
    reply = await connection.send(name, messages, version, request)
    try:
        return await reply.wait(seconds)
    except Disconnected:
        connection.close()
        raise


async def is_served(connection: ClientConnection) -> bool:
    """Return whether a request is answered that needs a login."""
    request = metadata.MetadataRequest([])
    try:
        await ask(connection, "Metadata", metadata, _METADATA_VERSION, request)
    except Disconnected:
        return False
    return True


async def log_in(connection: ClientConnection, secret: Secret, rng: Random) -> Answer:
    """Log in, for the first time or again.

    Raises:
      Disconnected: no answer came.
    """
    shaken = await ask(
        connection,
        "SaslHandshake",
        handshake,
        1,
        handshake.SaslHandshakeRequest(secret.mechanism),
    )
    if shaken.error_code:
        return Answer(shaken.error_code, "", 0, trio.current_time())
    if secret.mechanism == PLAIN:
        return _answer(await _token(connection, f"\0{secret.user}\0{secret.password}"))
    if secret.mechanism == BEARER:
        return await _log_in_by_bearer(connection, secret)
    return await _log_in_by_scram(connection, secret, rng)


async def _log_in_by_bearer(connection: ClientConnection, secret: Secret) -> Answer:
    """Log in by a token; the client answers the challenge of a refusal with one byte (RFC 7628)."""
    answer = await _token(connection, f"n,,\1auth=Bearer {secret.password}\1\1")
    if not answer.error_code and answer.auth_bytes:
        answer = await _token(connection, "\1")
    return _answer(answer)


async def _log_in_by_scram(connection: ClientConnection, secret: Secret, rng: Random) -> Answer:
    nonce = rng.randbytes(12).hex()
    first = scram.first_message(secret.user, nonce, is_token=secret.is_token)
    challenge = await _token(connection, f"n,,{first}")
    if challenge.error_code:
        return _answer(challenge)
    text = bytes(challenge.auth_bytes).decode()
    if not text.startswith(f"r={nonce}"):
        raise ProtocolBroken(f"another nonce: {text}")
    final, expected = scram.final_message(first, text, secret.password)
    last = await _token(connection, final)
    return _answer(last)._replace(is_proved=bytes(last.auth_bytes).decode() == expected)


async def _token(connection: ClientConnection, text: str) -> Any:
    request = authenticate.SaslAuthenticateRequest(text.encode())
    return await ask(connection, "SaslAuthenticate", authenticate, _AUTHENTICATE_VERSION, request)


def _answer(response: Any) -> Answer:
    text = response.error_message or ""
    return Answer(response.error_code, text, response.session_lifetime_ms, trio.current_time())


def is_refusal(answer: Answer, mechanism: str, *, is_again: bool = False) -> bool:
    """Return whether a login failed with the only answer that a wrong password may get.

    is_again: the connection had logged in before.
    """
    text = _REFUSALS[mechanism]
    if is_again:
        text = text.replace(" during authentication ", " during re-authentication ")
    return (answer.code, answer.text) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
