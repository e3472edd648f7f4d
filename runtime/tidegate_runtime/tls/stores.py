"""Reads keystores and truststores: PEM, PKCS12 and JKS.

The content determines the format, because Kafka's default type of a store is JKS, but keytool
writes PKCS12. Pure; store_files.py reads the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from .bad_store import BadStore
from .certificate import Certificate, read_certificate
from .der import BadDer
from .jks import MAGIC as JKS_MAGIC
from .jks import BadJks, JksStore, private_key, read_jks
from .pem import is_pem, pem_certificates, pem_key, pem_of
from .pkcs12 import Pkcs12Store, read_pkcs12

_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key with its certificates.

    key: PEM of PKCS8, without a password.  chain: the key's own certificate first.
    """

    key: bytes = field(repr=False)
    chain: tuple[Certificate, ...]


def read_key_entry(data: bytes, password: str | None, key_password: str | None) -> KeyEntry:
    """Read a keystore; of several keys, take the one whose alias is the first.

    Args:
      password: the store's password; PEM has none.
      key_password: the key's password; None: it equals the store's.

    Raises:
      BadStore: it has no key, is damaged, or a password is wrong.
    """
    if data.startswith(JKS_MAGIC):
        key, chain = _jks_entry(_jks(data, password), key_password or password)
    elif is_pem(data):
        key, chain = pem_key(data, key_password), pem_certificates(data)
    else:
        store = _pkcs12(data, password)
        if store.key is None or store.own is None:
            raise BadStore("it holds no private key with its certificate")
        key, chain = store.key, (store.own, *_signers(store.own, store.others))
    if not chain:
        raise BadStore("it holds no certificate of its key")
    return KeyEntry(key, tuple(map(_facts, chain)))


def read_trusted(data: bytes, password: str | None) -> tuple[bytes, ...]:
    """Read a truststore; return its certificates in DER.

    In a private key's chain, only the key's own certificate is trusted, as in Java.

    Raises:
      BadStore: it has no certificate, is damaged, or the password is wrong.
    """
    if data.startswith(JKS_MAGIC):
        store = _jks(data, password)
        found = (*store.trusted, *(each.chain[0] for each in store.keys if each.chain))
    elif is_pem(data):
        found = pem_certificates(data)
    else:
        found = _trusted_pkcs12(data, password)
    if not found:
        raise BadStore("it holds no certificate")
    return tuple(_facts(each).der for each in found)


def chain_problem(chain: Sequence[Certificate]) -> str:
    """Return a problem of a chain's order; "" if each certificate is signed by the next one.

    Raises:
      BadStore: a certificate cannot be read.
    """
    from cryptography import x509  # takes 60 ms

    try:
        loaded = [x509.load_der_x509_certificate(each.der) for each in chain]
    except ValueError:
        raise BadStore("a certificate is damaged") from None
    for number, (issued, issuer) in enumerate(pairwise(loaded), 1):
        try:
            issued.verify_directly_issued_by(issuer)
        except Exception:  # errors of several kinds; a wrong signature is one of OpenSSL's
            return f"certificate {number + 1} of its chain did not sign certificate {number}"
    return ""


def _facts(der: bytes) -> Certificate:
    try:
        return read_certificate(der)
    except BadDer as error:
        raise BadStore(f"a certificate is damaged: {error}") from None


def _jks(data: bytes, password: str | None) -> JksStore:
    try:
        return read_jks(data, password)
    except BadJks as error:
        raise BadStore(str(error)) from None


def _jks_entry(store: JksStore, password: str | None) -> tuple[bytes, tuple[bytes, ...]]:
    if not store.keys:
        raise BadStore("it holds no private key")
    if password is None:
        raise BadStore("its key needs a password")
    # the file has the certificates in no order
    first = min(store.keys, key=lambda each: each.alias)
    try:
        key = private_key(first, password)
    except BadJks as error:
        raise BadStore(str(error)) from None
    return pem_of(key, "PRIVATE KEY"), first.chain


def _pkcs12(data: bytes, password: str | None) -> Pkcs12Store:
    if data.startswith(_JCEKS_MAGIC):
        raise BadStore("it is a JCEKS store: convert it (keytool -importkeystore) to PKCS12")
    return read_pkcs12(data, password)


def _trusted_pkcs12(data: bytes, password: str | None) -> tuple[bytes, ...]:
    store = _pkcs12(data, password)
    if store.own is None:
        return store.others
    signers = _signers(store.own, store.others) if store.key is not None else ()
    return (store.own, *(each for each in store.others if each not in signers))


def _signers(own: bytes, others: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the certificates by which a certificate is signed, the nearest first."""
    left = [_facts(each) for each in others]
    found: list[Certificate] = [_facts(own)]
    while signer := next((each for each in left if each.subject == found[-1].issuer), None):
        left.remove(signer)
        found.append(signer)
    return tuple(each.der for each in found[1:])
