"""Opens sealed SCRAM credentials, by the format alone: AES-256-GCM.  Pure."""

from __future__ import annotations

import hmac

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidegate_coordination.state.security.scram import (
    KeptCredential,
    ScramCredential,
    SealedCredential,
)

from ..plans.security.sealing_plan import KEYS

_KEY_ID_BYTES = 8
_TENANT = 0


def key_id(key: str) -> bytes:
    """Return the key id that sealed credentials carry."""
    return hmac.digest(key.encode(), b"tidegate key id", "sha256")[:_KEY_ID_BYTES]


def opened(kept: KeptCredential | None) -> ScramCredential | None:
    """Return a credential that was sealed with a key of the run; None if it cannot be opened."""
    if not isinstance(kept, SealedCredential):
        return kept
    for key in KEYS:
        if key_id(key) == kept.key_id:
            return _opened(kept, AESGCM(hmac.digest(key.encode(), b"tidegate scram", "sha256")))
    return None


def _opened(kept: SealedCredential, cipher: AESGCM) -> ScramCredential | None:
    about = ("scram", _TENANT, kept.user, kept.mechanism, kept.iterations)
    try:
        secrets = cipher.decrypt(kept.nonce, kept.sealed, msgspec.msgpack.encode(about))
    except InvalidTag:
        return None
    found = msgspec.msgpack.decode(secrets, type=tuple[bytes, bytes, bytes])
    return ScramCredential(kept.user, kept.mechanism, *found, kept.iterations)
