"""Reads PKCS12, the format that keytool writes by default.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from .bad_store import BadStore


@dataclass(frozen=True, slots=True)
class Pkcs12Store:
    """key: PEM of PKCS8, or None; own: the key's certificate; others: in the order of the file.

    The certificates are in DER.
    """

    key: bytes | None = field(repr=False)
    own: bytes | None
    others: tuple[bytes, ...]


def read_pkcs12(data: bytes, password: str | None) -> Pkcs12Store:
    """Read a store.

    Raises:
      BadStore: it is damaged, or the password is wrong.
    """
    # Their import takes 60 ms, which a start without such a store saves.
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        found = load_pkcs12(data, None if password is None else password.encode())
        others = tuple(
            each.certificate.public_bytes(s.Encoding.DER) for each in found.additional_certs
        )
        own = found.cert.certificate.public_bytes(s.Encoding.DER) if found.cert else None
    except Exception:  # errors of several kinds, one for each kind of damage
        what = "its password is wrong" if password is not None else "it needs a password"
        raise BadStore(f"{what}, or it is no PKCS12, JKS or PEM, or damaged") from None
    if found.key is None:
        return Pkcs12Store(None, own, others)
    form = s.PrivateFormat.PKCS8
    key = found.key.private_bytes(s.Encoding.PEM, form, s.NoEncryption())
    return Pkcs12Store(key, own, others)
