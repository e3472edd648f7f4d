"""The client's side of SCRAM-SHA-256 (RFC 5802).  Pure.

The caller draws the nonce from the run's random numbers.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from functools import lru_cache
from typing import Final

NAME: Final = "SCRAM-SHA-256"
NUMBER: Final = 1
ITERATIONS: Final = 4096
_HASH: Final = "sha256"


@lru_cache(maxsize=1000)
def salted(password: str, salt: bytes, iterations: int) -> bytes:
    """Return the key that a password becomes."""
    return hashlib.pbkdf2_hmac(_HASH, password.encode(), salt, iterations)


def stored_key(password: str, salt: bytes, iterations: int) -> bytes:
    """Return the StoredKey that the cluster keeps of a password."""
    client_key = hmac.digest(salted(password, salt, iterations), b"Client Key", _HASH)
    return hashlib.new(_HASH, client_key).digest()


def first_message(user: str, nonce: str, *, is_token: bool = False) -> str:
    """Return the client's first message, without its head.

    is_token: the user is the id of a delegation token (KIP-48).
    """
    return f"n={user},r={nonce}" + (",tokenauth=true" if is_token else "")


def final_message(first: str, challenge: str, password: str) -> tuple[str, str]:
    """Return the client's proof, and how the server must prove itself in turn."""
    nonce, salt, iterations = (each[2:] for each in challenge.split(","))
    key = salted(password, b64decode(salt), int(iterations))
    unproved = f"c=biws,r={nonce}"
    signed = f"{first},{challenge},{unproved}".encode()
    client_key = hmac.digest(key, b"Client Key", _HASH)
    signature = hmac.digest(hashlib.new(_HASH, client_key).digest(), signed, _HASH)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    server_key = hmac.digest(key, b"Server Key", _HASH)
    expected = b64encode(hmac.digest(server_key, signed, _HASH)).decode()
    return f"{unproved},p={b64encode(proof).decode()}", f"v={expected}"
