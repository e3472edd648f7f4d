"""The secrets of delegation tokens.

A secret is the HMAC-SHA512 of the token's id under `delegation.token.secret.key`, as in Kafka.  So
every gateway with the key can compute a secret, and the log does not hold secrets.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final

import trio

from tidegate_coordination.state.security.tokens import TokenTable
from tidegate_runtime.secret import Secret

_ID_BYTES: Final = 16
SECRETS_A_TURN: Final = 200
"""So many HMACs take less than a millisecond."""


class TokenSecrets:
    """Makes secrets."""

    def __init__(self, key: Secret) -> None:
        self._key: Final = key

    @property
    def is_enabled(self) -> bool:
        """Return whether a key is set; without a key there are no tokens."""
        return bool(self._key)

    def of(self, token_id: str) -> bytes:
        """Return the secret of a token."""
        return hmac.digest(self._key.reveal_bytes(), token_id.encode(), "sha512")


def new_token_id(random_bytes: Callable[[int], bytes]) -> str:
    """Return a random id in the form of Kafka's: 22 characters, of which the first is no dash."""
    while (made := urlsafe_b64encode(random_bytes(_ID_BYTES)).decode().rstrip("=")).startswith("-"):
        pass
    return made


class TokenFinder:
    """Finds a token by its secret: requests name a token only by its secret."""

    def __init__(self, table: TokenTable, secrets: TokenSecrets) -> None:
        self._table: Final = table
        self._secrets: Final = secrets
        self._ids: Final[dict[bytes, str]] = {}
        self._by_id: Final[dict[str, bytes]] = {}
        self._as_of = -1

    async def find(self, secret: bytes) -> str | None:
        """Return the id of a token; None if no token here has the secret."""
        while self._as_of != self._table.version:
            version = self._table.version
            await self._learn()
            self._as_of = version
        return self._ids.get(secret)

    async def _learn(self) -> None:
        """Take over changes of the table of tokens, which may change again meanwhile."""
        for gone in self._by_id.keys() - self._table.ids:
            del self._ids[self._by_id.pop(gone)]
        made = 0
        for token_id in self._table.ids - self._by_id.keys():
            # Another request may have computed the secret meanwhile, or the token may be gone.
            if token_id in self._by_id or token_id not in self._table.ids:
                continue
            secret = self._secrets.of(token_id)
            self._ids[secret] = token_id
            self._by_id[token_id] = secret
            made += 1
            if not made % SECRETS_A_TURN:
                await trio.lowlevel.checkpoint()
