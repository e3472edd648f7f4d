"""The keys that the cluster keeps of a SCRAM password (RFC 5802).  Pure."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from tidegate_coordination.state.security.scram import ScramCredential, ScramMechanism

from .scram import HASHES

MAX_ITERATIONS: Final = 16384
"""Kafka's bound (KIP-554)."""


def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password.  PBKDF2 takes some 10 ms: do it outside of the event loop."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism.sasl_name], password.encode(), salt, iterations)


def credential_of(
    user: str, mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a user's salted password."""
    hash_name = HASHES[mechanism.sasl_name]
    client_key = hmac.digest(salted_password, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    server_key = hmac.digest(salted_password, b"Server Key", hash_name)
    return ScramCredential(user, int(mechanism), salt, stored_key, server_key, iterations)
