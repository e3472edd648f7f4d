"""The TLS context of a link's connections, out of PEM files and texts."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from .errors import BadProperties
from .properties import ClientProperties, Pem, TlsProperties


def make_tls_context(properties: TlsProperties) -> ssl.SSLContext:
    """Return a context for connections to brokers.  Reads files, so it blocks.

    Raises:
      BadProperties: a store cannot be read or has no certificate, or the key's password is wrong.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = properties.is_host_checked
    # As Java has it: each certificate of the truststore is an anchor, also a broker's own.
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
        text = store.text or Path(store.path).read_text(encoding="ascii", errors="replace")
        context.load_verify_locations(cadata=_certificates(text))
    except (OSError, ValueError) as error:
        raise BadProperties(
            f"ssl.truststore{_place(store)} cannot be used ({_reason(error)}): it must hold"
            " certificates in PEM."
        ) from None


def _certificates(text: str) -> str:
    """Return the certificates of a PEM text without what stands between them, as Java reads it.

    Raises:
      ValueError: there is none.
    """
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    pieces = [each.partition(end) for each in text.split(begin)[1:]]
    found = [f"{begin}{body}{closed}\n" for body, closed, _ in pieces if closed]
    if not found:
        raise ValueError("no certificate")
    return "".join(found)


def _present(context: ssl.SSLContext, store: Pem, password: str) -> None:
    try:
        if store.path:
            context.load_cert_chain(store.path, password=lambda: password)
        else:
            _load_texts(context, store, password)
    except (OSError, ValueError) as error:
        raise BadProperties(
            f"ssl.keystore{_place(store)} cannot be used ({_reason(error)}): it must hold a"
            " certificate and its key in PEM, and ssl.key.password must fit."
        ) from None


def _load_texts(context: ssl.SSLContext, store: Pem, password: str) -> None:
    """Python loads a key from a file only; a temporary file is readable by its owner alone."""
    with NamedTemporaryFile("w", encoding="ascii", suffix=".pem") as file:
        file.write(f"{store.key}\n{store.text}\n")
        file.flush()
        context.load_cert_chain(file.name, password=lambda: password)


def _place(store: Pem) -> str:
    return f".location={store.path}" if store.path else ""


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return tls_reason(error)
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "not PEM"


def tls_reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason in words."""
    return (error.reason or "TLS error").replace("_", " ").lower()


def with_texts(properties: ClientProperties) -> ClientProperties:
    """Return properties that hold the texts of their PEM files, for a process that has no such
    files.  Reads files, so it blocks.

    Raises:
      BadProperties: a file cannot be read.
    """
    tls = properties.tls
    if tls is None:
        return properties
    truststore, keystore = _with_text(tls.truststore), _with_text(tls.keystore)
    return replace(properties, tls=replace(tls, truststore=truststore, keystore=keystore))


def _with_text(store: Pem | None) -> Pem | None:
    if store is None or not store.path:
        return store
    try:
        return Pem(text=Path(store.path).read_text(encoding="ascii", errors="replace"))
    except OSError as error:
        raise BadProperties(f"{store.path} cannot be read ({_reason(error)}).") from None
