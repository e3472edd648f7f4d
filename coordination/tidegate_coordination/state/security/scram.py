"""The SCRAM credentials of users (KIP-554), plain or sealed.

The fold knows no sealing key: it keeps what the proposer has sealed, and gateways open that for a
login.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from ...events.security import ScramCredentialRemoved, ScramCredentialSealed, ScramCredentialSet
from ..broken import expect
from ..frozen import FrozenRows, frozen_values
from ..long_values import sorted_keys


class ScramMechanism(IntEnum):
    """Kafka's numbers, as on the wire."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @classmethod
    def of_sasl_name(cls, name: str) -> ScramMechanism:
        """Return the mechanism that clients call `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
        return cls[name.replace("-", "_")]

    @property
    def sasl_name(self) -> str:
        """Return the name that clients use: `SCRAM-SHA-256`."""
        return self.name.replace("_", "-")


class ScramCredential(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The server's keys for a password; see RFC 5802.  Its text shows no secret."""

    user: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(user={self.user!r}, mechanism={self.mechanism}, [hidden])"


class SealedCredential(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A credential whose secrets only gateways with a key can read; see ScramCredentialSealed."""

    user: str
    mechanism: int
    iterations: int
    key_id: bytes
    nonce: bytes
    sealed: bytes


KeptCredential: TypeAlias = ScramCredential | SealedCredential


def fingerprint(credential: KeptCredential) -> bytes:
    """Return 32 bytes by which a changed credential is recognised; they show no secret."""
    kind = type(credential).__name__.encode()
    return hashlib.sha256(kind + msgspec.msgpack.encode(credential)).digest()


_Kind = TypeVar("_Kind", ScramCredential, SealedCredential)


class ScramTable:
    """Credentials by user and mechanism.  version: rises with every change, for caches.

    A user's credentials are replaced, and never change, so a copy of the table stays as it is.
    """

    def __init__(self) -> None:
        self.version = 0
        self._by_user: Final[dict[str, Mapping[int, KeptCredential]]] = {}

    def get(self, user: str, mechanism: int) -> KeptCredential | None:
        """Return a user's credential."""
        return self._by_user.get(user, {}).get(mechanism)

    def by_sasl_name(self, mechanism: str, user: str) -> KeptCredential | None:
        """Return a user's credential for `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
        return self.get(user, ScramMechanism.of_sasl_name(mechanism))

    def of_user(self, user: str) -> list[KeptCredential]:
        """Return a user's credentials, by the number of the mechanism."""
        return [each for _, each in sorted(self._by_user.get(user, {}).items())]

    def __iter__(self) -> Iterator[KeptCredential]:
        """Yield all credentials, by user and mechanism."""
        for user in self.users:
            yield from self.of_user(user)

    @property
    def users(self) -> list[str]:
        """Return all users with a credential, sorted; slow if there are many."""
        return sorted(self._by_user)

    def copied_users(self) -> list[str]:
        """Return a copy of all users with a credential, in no order."""
        return list(self._by_user)

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

    def fold_sealed(self, event: ScramCredentialSealed) -> None:
        """Set or replace a credential."""
        self._set(
            SealedCredential(
                event.user,
                event.mechanism,
                event.iterations,
                event.key_id,
                event.nonce,
                event.sealed,
            )
        )
        self.version += 1

    def fold_removed(self, event: ScramCredentialRemoved) -> None:
        """Forget a credential."""
        of_user = self._by_user.get(event.user, {})
        known = event.mechanism in of_user
        expect(known, f"user {event.user} has no credential {event.mechanism}")
        left = {key: each for key, each in of_user.items() if key != event.mechanism}
        if left:
            self._by_user[event.user] = left
        else:
            del self._by_user[event.user]
        self.version += 1

    def _set(self, credential: KeptCredential) -> None:
        of_user = self._by_user.get(credential.user, {})
        self._by_user[credential.user] = {**of_user, credential.mechanism: credential}

    def frozen(self) -> tuple[FrozenRows[ScramCredential], FrozenRows[SealedCredential]]:
        """Return the present rows that are plain, and those that are sealed, to be encoded later.

        The rows are by user and mechanism.
        """
        users = self._by_user.copy()
        return (
            frozen_values("scram", _slices(users, ScramCredential)),
            frozen_values("scram_sealed", _slices(users, SealedCredential)),
        )

    def decode(self, rows: Iterable[Any]) -> None:
        """Add the rows of a piece of a snapshot."""
        for each in msgspec.convert(rows, list[ScramCredential]):
            self._set(each)

    def decode_sealed(self, rows: Iterable[Any]) -> None:
        """Add the sealed rows of a piece of a snapshot."""
        for each in msgspec.convert(rows, list[SealedCredential]):
            self._set(each)


def _slices(
    users: Mapping[str, Mapping[int, KeptCredential]], kind: type[_Kind]
) -> Iterator[list[_Kind]]:
    for names in sorted_keys(users):
        rows = (each for name in names for _, each in sorted(users[name].items()))
        yield [each for each in rows if isinstance(each, kind)]
