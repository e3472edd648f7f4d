"""The TLS context of a link's connections, out of key stores and texts in PEM."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from tidegate_runtime.secret import Secret
from tidegate_runtime.tls.bad_store import BadStore
from tidegate_runtime.tls.contexts import present, trust
from tidegate_runtime.tls.jks import MAGIC as JKS_MAGIC
from tidegate_runtime.tls.pem import pem_of
from tidegate_runtime.tls.stores import KeyEntry, read_key_entry, read_trusted

from .errors import BadProperties
from .properties.bearer_credentials import BearerCredentials
from .properties.client import ClientProperties
from .properties.tls import Pem, TlsProperties

_DER_SEQUENCE: Final = b"\x30"  # how a PKCS12 store begins


def make_tls_context(properties: TlsProperties) -> ssl.SSLContext:
    """Return a context for connections to brokers.  Reads files, so it blocks.

    Raises:
      BadProperties: a store cannot be read or has no certificate, or the key's password is wrong.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = properties.is_host_checked
    # As in Java, each certificate of the truststore is a trust anchor, even a broker's own.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if properties.truststore is None:
        context.load_default_certs()
    else:
        _trust(context, properties.truststore)
    if properties.keystore is not None:
        _present(context, properties.keystore, properties.key_password)
    return context


def _trust(context: ssl.SSLContext, store: Pem) -> None:
    try:
        trust(context, read_trusted(_content(store), store.password.reveal() or None))
    except (OSError, BadStore) as error:
        raise BadProperties(
            f"ssl.truststore{_place(store)} cannot be used ({_reason(error)}): it must hold"
            " certificates in PEM, PKCS12 or JKS, and ssl.truststore.password must fit."
        ) from None


def _present(context: ssl.SSLContext, store: Pem, key_password: Secret) -> None:
    try:
        present(context, _key_entry(_content(store), store, key_password))
    except (OSError, BadStore) as error:
        raise BadProperties(
            f"ssl.keystore{_place(store)} cannot be used ({_reason(error)}): it must hold a"
            " certificate and its key in PEM, PKCS12 or JKS, and ssl.keystore.password and"
            " ssl.key.password must fit."
        ) from None


def _key_entry(data: bytes, store: Pem, key_password: Secret) -> KeyEntry:
    return read_key_entry(data, store.password.reveal() or None, key_password.reveal() or None)


def _content(store: Pem) -> bytes:
    if store.path:
        return Path(store.path).read_bytes()
    return f"{store.key.reveal()}\n{store.text.reveal()}\n".encode()


def _place(store: Pem) -> str:
    return f".location={store.path}" if store.path else ""


def _reason(error: OSError | BadStore) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)


def with_texts(properties: ClientProperties) -> ClientProperties:
    """Return properties that hold the texts of their stores in PEM, for a process that has no such
    files.  Reads files, so it blocks.

    Raises:
      BadProperties: a file cannot be read.
    """
    sasl, tls = properties.sasl, properties.tls
    if isinstance(sasl, BearerCredentials):
        sasl = replace(sasl, tls=_tls_with_texts(sasl.tls))
    return replace(properties, sasl=sasl, tls=tls and _tls_with_texts(tls))


def _tls_with_texts(tls: TlsProperties) -> TlsProperties:
    return replace(
        tls,
        truststore=_with_text(tls.truststore, _trusted_text),
        keystore=_with_text(
            tls.keystore, lambda data, store: _key_text(_key_entry(data, store, tls.key_password))
        ),
    )


def _with_text(store: Pem | None, converted: Callable[[bytes, Pem], str]) -> Pem | None:
    if store is None or not store.path:
        return store
    try:
        data = _content(store)
        is_text = not data.startswith((JKS_MAGIC, _DER_SEQUENCE))
        text = data.decode("ascii", "replace") if is_text else converted(data, store)
        return Pem(text=Secret(text))
    except OSError as error:
        raise BadProperties(f"{store.path} cannot be read ({_reason(error)}).") from None
    except BadStore as error:
        raise BadProperties(f"{store.path} cannot be used ({_reason(error)}).") from None


def _trusted_text(data: bytes, store: Pem) -> str:
    trusted = read_trusted(data, store.password.reveal() or None)
    return "".join(pem_of(each, "CERTIFICATE").decode() for each in trusted)


def _key_text(entry: KeyEntry) -> str:
    chain = (pem_of(each.der, "CERTIFICATE").decode() for each in entry.chain)
    return entry.key.decode() + "".join(chain)
