"""The keys that an identity provider publishes: a JSON Web Key Set (RFC 7517).  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol
from warnings import catch_warnings

import msgspec
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey

Key = RSAKey | ECKey | OKPKey

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512"),
    *("PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512"),
    *("EdDSA", "Ed25519"),
)
"""Algorithms that sign tokens.  No HMAC is one: a gateway that can check one could make one."""

MAX_KEYS: Final = 1000
_LEAST_RSA_BITS: Final = 2048
_TYPES: Final[Mapping[str, type[Key]]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
_CURVES: Final = {"EC": {"P-256", "P-384", "P-521"}, "OKP": {"Ed25519"}}
_TYPE_OF: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class BadKeySet(Exception):
    """The text is no key set, or has no key that may sign tokens; the sentence says why."""


class _Text(msgspec.Struct):
    keys: list[dict[str, Any]]


class Keys(Protocol):
    """A collection in which the check of a token finds the key that the token names."""

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """Return the key; None if there is none.

        algorithm: one of ALGORITHMS.
        """
        ...


class KeySet:
    """The keys that may sign tokens, in the provider's order."""

    def __init__(self, keys: Sequence[Key] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key_id: str) -> bool:
        return any(each.kid == key_id for each in self._keys)

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """See Keys.  If a token names no key, the first one that fits signed it, as in Kafka."""
        for key in self._keys:
            has_id = key_id is None or key.kid == key_id
            if has_id and key.key_type == _TYPE_OF[algorithm[:2]] and key.alg in (None, algorithm):
                return key
        return None


def read_key_set(text: bytes) -> KeySet:
    """Read a key set; leave out keys that are not for signatures, or whose kind is unknown.

    Raises:
      BadKeySet: see there.
    """
    try:
        rows = msgspec.json.decode(text, type=_Text).keys[:MAX_KEYS]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadKeySet('it is no JSON object with "keys"') from None
    keys = [key for each in rows if (key := _read_key(each)) is not None]
    if not keys:
        raise BadKeySet("it has no key for signatures of RSA (2048 bits or more), EC or Ed25519")
    return KeySet(keys)


def _read_key(row: dict[str, Any]) -> Key | None:
    kind = _TYPES.get(str(row.get("kty")))
    if kind is None or row.get("use", "sig") != "sig":
        return None
    if kind is not RSAKey and row.get("crv") not in _CURVES[kind.key_type]:
        return None
    try:
        with catch_warnings(action="ignore", category=SecurityWarning):  # of weak keys: see below
            key = kind.import_key(row)
        key.check_key_op("verify")
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    is_weak = isinstance(key, RSAKey) and key.public_key.key_size < _LEAST_RSA_BITS
    return None if is_weak else key
