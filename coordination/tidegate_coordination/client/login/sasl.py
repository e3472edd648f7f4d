"""SASL as a client: PLAIN, SCRAM and OAUTHBEARER.  Pure: a conversation yields tokens and receives
challenges.

scramp computes the proofs and verifies the server's signature.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from scramp import ScramClient, ScramException

from ..errors import AuthenticationFailed, TokenRefused
from ..properties.jaas import SaslCredentials
from ..tokens.bearer import AGREED, BearerToken, refusal

# Kafka creates credentials with 4,096 to 16,384.  A false broker must not make us compute for long.
MAX_ITERATIONS: Final = 50_000

_TOKEN_LOGIN: Final = ",tokenauth=true"
"""The extension of SCRAM that says that the user is a delegation token (KIP-48)."""

Login: TypeAlias = SaslCredentials | BearerToken
"""The login of one connection."""

Conversation: TypeAlias = Generator[bytes, bytes, None]
"""Yields the client's tokens; each is answered with the broker's challenge.

After the last challenge it returns, or raises AuthenticationFailed.
"""


def conversation(login: Login) -> Conversation:
    """Return the conversation of the login's mechanism."""
    if isinstance(login, BearerToken):
        return _bearer(login)
    if login.mechanism == "PLAIN":
        return _plain(login)
    return _scram(login)


def _bearer(token: BearerToken) -> Conversation:
    challenge = yield token.first_message()
    if challenge:
        yield AGREED  # the broker then refuses again, with an error code
        raise TokenRefused(refusal(challenge.decode(errors="replace"), token.text))


def _plain(credentials: SaslCredentials) -> Conversation:
    yield f"\0{credentials.username}\0{credentials.password.reveal()}".encode()


def _scram(credentials: SaslCredentials) -> Conversation:
    client = _scram_client(credentials)
    first: str = client.get_client_first()
    if credentials.is_token:
        client.client_first_bare += _TOKEN_LOGIN  # the proof covers this, too
        first += _TOKEN_LOGIN
    challenge = yield first.encode()
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
    # Against RFC 5802, Kafka hashes the bytes without SASLprep; scramp applies SASLprep first.
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
