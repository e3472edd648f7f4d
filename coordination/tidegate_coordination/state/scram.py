"""The SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, Final

import msgspec

from ..events.security import ScramCredentialRemoved, ScramCredentialSet
from .broken import expect
from .frozen import FrozenRows, frozen_values


class ScramMechanism(IntEnum):
    """Kafka's numbers, as on the wire."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """Return the name that clients use: `SCRAM-SHA-256`."""
        return self.name.replace("_", "-")


class ScramCredential(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What the server must know of a password; see RFC 5802.  Its text shows no secret."""

    user: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(user={self.user!r}, mechanism={self.mechanism}, [hidden])"


class ScramTable:
    """Credentials by user and mechanism.  version: rises with every change, for caches."""

    def __init__(self) -> None:
        self.version = 0
        self._by_user: Final[dict[str, dict[int, ScramCredential]]] = {}

    def get(self, user: str, mechanism: int) -> ScramCredential | None:
        """Return a user's credential."""
        return self._by_user.get(user, {}).get(mechanism)

    def by_sasl_name(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return a user's credential for `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
        return self.get(user, ScramMechanism[mechanism.replace("-", "_")])

    def of_user(self, user: str) -> list[ScramCredential]:
        """Return a user's credentials, by the number of the mechanism."""
        return [each for _, each in sorted(self._by_user.get(user, {}).items())]

    @property
    def users(self) -> list[str]:
        """Return all users with a credential, sorted."""
        return sorted(self._by_user)

    def fold_set(self, event: ScramCredentialSet) -> None:
        """Set or replace a credential."""
        self._set(
            ScramCredential(
                event.user,
                event.mechanism,
                event.salt,
                event.stored_key,
                event.server_key,
                event.iterations,
            )
        )
        self.version += 1

    def fold_removed(self, event: ScramCredentialRemoved) -> None:
        """Forget a credential."""
        of_user = self._by_user.get(event.user, {})
        known = event.mechanism in of_user
        expect(known, f"user {event.user} has no credential {event.mechanism}")
        del of_user[event.mechanism]
        if not of_user:
            del self._by_user[event.user]
        self.version += 1

    def _set(self, credential: ScramCredential) -> None:
        self._by_user.setdefault(credential.user, {})[credential.mechanism] = credential

    def _rows(self) -> Iterator[ScramCredential]:
        for user in self.users:
            yield from self.of_user(user)

    def frozen(self) -> FrozenRows[ScramCredential]:
        """Return the present rows, to be encoded later."""
        return frozen_values("scram", self._rows())

    def decode(self, rows: Iterable[Any]) -> None:
        """Add the rows of a piece of a snapshot."""
        for each in msgspec.convert(rows, list[ScramCredential]):
            self._set(each)
