"""Keys and certificates in PEM.  Pure."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, encodebytes
from typing import Final

from .bad_store import BadStore

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_CERTIFICATES: Final = (b"CERTIFICATE", b"X509 CERTIFICATE")


def is_pem(data: bytes) -> bool:
    """Return whether the bytes are text with a block of PEM."""
    return b"-----BEGIN " in data


def pem_certificates(data: bytes) -> tuple[bytes, ...]:
    """Return the certificates in DER, without the text between them, as Java reads them.

    Raises:
      BadStore: one is not base64.
    """
    bodies = [each[2] for each in _BLOCK.finditer(data) if each[1] in _CERTIFICATES]
    try:
        return tuple(b64decode(b"".join(each.split()), validate=True) for each in bodies)
    except binascii.Error:
        raise BadStore("a certificate is damaged: it is not base64") from None


def pem_key(data: bytes, password: str | None) -> bytes:
    """Return the first private key as PEM of PKCS8, without a password.

    Raises:
      BadStore: there is no private key, it is damaged, or the password is wrong.
    """
    keys = [each[0] for each in _BLOCK.finditer(data) if each[1].endswith(b"PRIVATE KEY")]
    if not keys:
        raise BadStore("it holds no private key in PEM")
    is_encrypted = b"ENCRYPTED" in keys[0]
    if not is_encrypted and b"BEGIN PRIVATE KEY" in keys[0]:
        return keys[0] + b"\n"
    if is_encrypted and not password:
        raise BadStore("its key needs ssl.key.password")
    return _decrypted(keys[0], password.encode() if is_encrypted and password else None)


def _decrypted(text: bytes, secret: bytes | None) -> bytes:
    from cryptography.hazmat.primitives import serialization as s  # takes 60 ms

    try:
        key = s.load_pem_private_key(text, secret)
    except Exception:  # errors of several kinds, whose texts may quote the key
        reason = "its key is damaged" + (", or ssl.key.password is wrong" if secret else "")
        raise BadStore(reason) from None
    return key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())


def pem_of(der: bytes, what: str) -> bytes:
    """Return DER as PEM.  what: "CERTIFICATE" or "PRIVATE KEY"."""
    return f"-----BEGIN {what}-----\n{encodebytes(der).decode()}-----END {what}-----\n".encode()
