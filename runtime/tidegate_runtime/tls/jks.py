"""Reads Java's own key store format, JKS.

keytool writes PKCS12 since Java 9, but older stores stay in use for decades.  The format is a list
of entries in DataOutputStream's notation, closed by a SHA-1 over the password and all bytes; keys
are masked with a stream of SHA-1 digests.  Java never specified it; this reader follows from stores
that keytool wrote.  Pure.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from .der import OBJECT_ID, OCTET_STRING, SEQUENCE, BadDer, elements, object_id, one

MAGIC: Final = b"\xfe\xed\xfe\xed"
_VERSIONS: Final = (1, 2)
_CERTIFICATE_TYPES: Final = ("X.509", "X509")
_KEY, _TRUSTED = 1, 2
_DIGEST_BYTES: Final = 20
# Hashed with the password, so that the digest is no plain SHA-1 of it.
_WHITENER: Final = b"Mighty Aphrodite"
_PROTECTED_BY_PASSWORD: Final = "1.3.6.1.4.1.42.2.17.1.1"


class BadJks(Exception):
    """The store is damaged, or a password is wrong.  The text holds no secret."""


@dataclass(frozen=True, slots=True)
class JksKey:
    """A private key and its chain, own certificate first, in DER.  masked: see private_key()."""

    alias: str
    masked: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JksStore:
    """keys, trusted: in the order of the file; certificates in DER."""

    keys: tuple[JksKey, ...]
    trusted: tuple[bytes, ...]


def read_jks(data: bytes, password: str | None) -> JksStore:
    """Read a store.

    Args:
      password: the store's; None: read the store without a check, as Java does.

    Raises:
      BadJks: the store is damaged, or the password is wrong.
    """
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None and not _is_authentic(content, digest, password):
        raise BadJks("its password is wrong, or it is damaged")
    try:
        return _entries(_Reader(content))
    except IndexError:
        raise BadJks("it is damaged") from None


def private_key(key: JksKey, password: str) -> bytes:
    """Return the PKCS8 key, in DER, of an entry.

    Raises:
      BadJks: the key is damaged, or the password is wrong.
    """
    try:
        return _unmasked(key.masked, _as_java(password))
    except (BadDer, ValueError):
        raise BadJks("its key is damaged") from None


def _is_authentic(content: bytes, digest: bytes, password: str) -> bool:
    wanted = hashlib.sha1(_as_java(password) + _WHITENER + content).digest()
    return hmac.compare_digest(wanted, digest)


def _as_java(password: str) -> bytes:
    """Return a password as Java's char[]: two bytes for each."""
    return password.encode("utf-16-be")


class _Reader:
    """DataInputStream's notation."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) != size:
            raise IndexError
        self._at += size
        return found

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        return self.take(self.number(2)).decode("utf-8", "replace")

    def block(self) -> bytes:
        return self.take(self.number())


def _entries(reader: _Reader) -> JksStore:
    version = reader.number() if reader.take(len(MAGIC)) == MAGIC else 0
    if version not in _VERSIONS:
        raise BadJks("it is no JKS store")
    keys: list[JksKey] = []
    trusted: list[bytes] = []
    for _ in range(reader.number()):
        tag, alias = reader.number(), reader.text()
        reader.take(8)  # when the entry was made
        if tag == _KEY:
            masked = reader.block()
            chain = tuple(_certificate(reader, version) for _ in range(reader.number()))
            keys.append(JksKey(alias, masked, chain))
        elif tag == _TRUSTED:
            trusted.append(_certificate(reader, version))
        else:
            raise BadJks("it is damaged")
    return JksStore(tuple(keys), tuple(trusted))


def _certificate(reader: _Reader, version: int) -> bytes:
    if version > 1 and reader.text() not in _CERTIFICATE_TYPES:
        raise BadJks("it holds something else than X.509 certificates")
    return reader.block()


def _unmasked(info: bytes, secret: bytes) -> bytes:
    """Return the key in an EncryptedPrivateKeyInfo, whose algorithm is JKS's own.

    Its value is a salt, the masked key, and a digest.  The mask begins with the digest of password
    and salt; each further piece is the digest of the password and the previous piece.
    """
    algorithm, protected = elements(one(info, SEQUENCE))
    if object_id(one(algorithm.body, OBJECT_ID)) != _PROTECTED_BY_PASSWORD:
        raise BadJks("its key is encrypted in another way than JKS does")
    body = one(protected.whole, OCTET_STRING)
    salt, masked, check = body[:20], body[20:-20], body[-20:]
    mask, piece = bytearray(), salt
    while len(mask) < len(masked):
        piece = hashlib.sha1(secret + piece).digest()
        mask += piece
    key = bytes(a ^ b for a, b in zip(masked, mask, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise BadJks("the password of its key is wrong")
    return key
