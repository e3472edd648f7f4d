"""Stored chunks and indexes back to the broker's bytes.  Pure.

    plain      zstd, if the manifest says so, with its size in the frame
    encrypted  initialization vector 12 bytes, AES-256-GCM, tag 16 bytes; over zstd, if any

Each segment has its own key, and additional data that is authenticated with each chunk.  The
manifest has the key wrapped by RSA: "ID:" and Base64 of OAEP with SHA3-512, also in MGF1.
OpenSSL's OAEP does not take SHA-3, so the key is unwrapped here.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from hashlib import sha3_512
from typing import Final, NamedTuple

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from .manifests import BadTier

IV_BYTES: Final = 12
_HASH_BYTES: Final = 64
_ONE: Final = b"\x01"


class Secret(NamedTuple):
    """How a segment is encrypted."""

    key: bytes
    aad: bytes


def decrypted(data: bytes, secret: Secret | None) -> bytes:
    """Return the decrypted data; without a secret, the data itself.

    Raises:
      BadTier: the data is damaged, or was encrypted with another key.
    """
    if secret is None:
        return data
    try:
        return AESGCM(secret.key).decrypt(data[:IV_BYTES], data[IV_BYTES:], secret.aad)
    except (InvalidTag, ValueError):
        raise BadTier("it cannot be decrypted: it is damaged, or has another key") from None


def chunk_of(data: bytes, secret: Secret | None, size: int, *, is_compressed: bool) -> bytes:
    """Return a chunk as it was in the broker's file. size: its bytes in that file.

    Raises:
      BadTier: the chunk is damaged.
    """
    found = decrypted(data, secret)
    if is_compressed:
        try:
            found = zstandard.ZstdDecompressor().decompress(found, max_output_size=size)
        except zstandard.ZstdError as error:
            raise BadTier(f"it cannot be decompressed: {error}") from None
    if len(found) != size:
        raise BadTier(f"it has {len(found)} bytes, and the manifest says {size}")
    return found


def read_private_key(pem: bytes, name: str) -> RSAPrivateKey:
    """Read a private key.

    Raises:
      BadTier: it is no RSA key in PEM without a password.
    """
    try:
        key = load_pem_private_key(pem, None)
    except (TypeError, ValueError):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise BadTier(f"{name} holds no private key of RSA in PEM without a password")
    return key


def unwrapped(wrapped: str, keys: Mapping[str, RSAPrivateKey]) -> bytes:
    """Return a segment's key; keys: by the id that the brokers give them.

    Raises:
      BadTier: the key with which it was wrapped is missing, or is another one.
    """
    name, _, text = wrapped.partition(":")
    key = keys.get(name)
    if key is None:
        raise BadTier(f"the segment is encrypted with key {name!r}, which was not given")
    numbers = key.private_numbers()
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    plain = pow(int.from_bytes(b64decode(text), "big"), numbers.d, modulus)
    found = _without_padding(plain.to_bytes(size, "big"))
    if found is None:
        raise BadTier(f"key {name!r} is another one than that which encrypted the segment")
    return found


def _without_padding(block: bytes) -> bytes | None:
    """Remove the padding of OAEP (RFC 8017, 7.1.2); None if the padding is wrong."""
    masked_seed, masked = block[1 : 1 + _HASH_BYTES], block[1 + _HASH_BYTES :]
    seed = _xor(masked_seed, _mask(masked, _HASH_BYTES))
    data = _xor(masked, _mask(seed, len(masked)))
    is_known = block[0] == 0 and data[:_HASH_BYTES] == sha3_512().digest()
    padding, one, found = data[_HASH_BYTES:].partition(_ONE)
    return found if is_known and one and not any(padding) else None


def _mask(seed: bytes, size: int) -> bytes:
    """Return the mask MGF1 of a seed."""
    count = -(-size // _HASH_BYTES)
    return b"".join(sha3_512(seed + n.to_bytes(4, "big")).digest() for n in range(count))[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
