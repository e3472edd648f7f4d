"""SASL as a client: PLAIN and SCRAM.  Pure: a conversation yields tokens and receives challenges.

scramp computes the proofs and verifies the server's signature.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from scramp import ScramClient, ScramException

from .errors import AuthenticationFailed
from .jaas import SaslCredentials

# Kafka creates credentials with 4,096 to 16,384.  A false broker must not make us compute for long.
MAX_ITERATIONS: Final = 50_000

Conversation: TypeAlias = Generator[bytes, bytes, None]
"""Yields the client's tokens; each is answered with the broker's challenge.

After the last challenge it returns, or raises AuthenticationFailed.
"""


def conversation(credentials: SaslCredentials) -> Conversation:
    """Return the conversation of the mechanism that the credentials name."""
    if credentials.mechanism == "PLAIN":
        return _plain(credentials)
    return _scram(credentials)


def _plain(credentials: SaslCredentials) -> Conversation:
    yield f"\0{credentials.username}\0{credentials.password.reveal()}".encode()


def _scram(credentials: SaslCredentials) -> Conversation:
    client = _scram_client(credentials)
    challenge = yield client.get_client_first().encode()
    _take(client.set_server_first, challenge)
    if int(client.iterations) > MAX_ITERATIONS:
        raise AuthenticationFailed(
            f"it asks for {int(client.iterations)} iterations of {credentials.mechanism}, more"
            f" than {MAX_ITERATIONS}"
        )
    challenge = yield client.get_client_final().encode()
    _take(client.set_server_final, challenge)


def _scram_client(credentials: SaslCredentials) -> Any:
    name, password = credentials.username, credentials.password.reveal()
    try:
        client: Any = ScramClient([credentials.mechanism], name, password)
    except ScramException:
        client = None
    # Kafka hashes the bytes as they are, against RFC 5802; scramp prepares them first.
    if client is None or (client.username.username, client.password.password) != (name, password):
        raise AuthenticationFailed(
            "user name or password has characters that SCRAM clients write differently: choose"
            " them from ASCII"
        )
    return client


def _take(step: Callable[[str], None], challenge: bytes) -> None:
    try:
        step(challenge.decode())
    except (ScramException, ValueError):
        raise AuthenticationFailed(
            "its answer does not prove that it knows the password: do not trust it"
        ) from None
