"""Makes a listener's TLS context and certificates from files.  It blocks, so a thread runs it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate_runtime.secret import Secret
from tidegate_runtime.tls.bad_store import BadStore
from tidegate_runtime.tls.certificate import Certificate
from tidegate_runtime.tls.contexts import present, trust
from tidegate_runtime.tls.stores import KeyEntry, read_key_entry, read_trusted

from .cipher_suites import TLS13_SUITES, CipherSuites
from .tls_settings import StoreSettings, TlsSettings

# A truststore with all public authorities has about 200 KiB.
MAX_STORE_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class ServerContext:
    """A context, and the certificates that it presents, the listener's own first.

    dialling: the context for outgoing connections, with the same certificates; None if the gateway
    makes none.
    """

    context: ssl.SSLContext
    chain: tuple[Certificate, ...]
    dialling: ssl.SSLContext | None = None

    @property
    def expires_at(self) -> float:
        """Return when the first of the certificates expires, in seconds since 1970."""
        return min(each.not_after for each in self.chain)


def make_server_context(settings: TlsSettings, *, dials: bool = False) -> ServerContext:
    """Read the stores of a listener, and make its context.

    dials: whether this gateway also connects to such listeners of other gateways.

    Raises:
      BadStore: a store cannot be used; the text names its setting.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    entry = _prepare(context, settings)
    if settings.client_auth is not ssl.CERT_NONE:
        _trust(context, settings.truststore, ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = settings.client_auth
    return ServerContext(context, entry.chain, _dialling(settings) if dials else None)


def _dialling(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_hosts
    _prepare(context, settings)
    _trust(context, settings.truststore, ssl.Purpose.SERVER_AUTH)
    return context


def _prepare(context: ssl.SSLContext, settings: TlsSettings) -> KeyEntry:
    context.minimum_version, context.maximum_version = settings.versions
    if settings.suites is not None:
        _limit_suites(context, settings.suites)
    return _presented(context, settings)


def is_allowed_suite(name: str, suites: CipherSuites | None) -> bool:
    """Return whether a connection may use the suite that its handshake chose.

    The check comes after the handshake, since Python cannot exclude suites of TLS 1.3 from a
    context.
    """
    return suites is None or name in suites.tls13 or name not in TLS13_SUITES


def _limit_suites(context: ssl.SSLContext, suites: CipherSuites) -> None:
    if suites.tls12:
        try:
            context.set_ciphers(":".join(suites.tls12))
        except ssl.SSLError:
            raise BadStore("ssl.cipher.suites has no suite that OpenSSL serves") from None


def _presented(context: ssl.SSLContext, settings: TlsSettings) -> KeyEntry:
    store = settings.keystore
    try:
        entry = read_key_entry(_content(store), _text(store.password), _text(settings.key_password))
        present(context, entry)
    except BadStore as error:
        raise BadStore(f"{_place('ssl.keystore', store)}: {error}") from None
    return entry


def _trust(context: ssl.SSLContext, store: StoreSettings | None, purpose: ssl.Purpose) -> None:
    if store is None:
        context.load_default_certs(purpose)
        return
    try:
        trust(context, read_trusted(_content(store), _text(store.password)))
    except BadStore as error:
        raise BadStore(f"{_place('ssl.truststore', store)}: {error}") from None


def _content(store: StoreSettings) -> bytes:
    if store.path is None:
        return store.text.reveal().encode()
    return read_store(store.path)


def _text(password: Secret | None) -> str | None:
    return None if password is None else password.reveal()


def read_store(path: Path) -> bytes:
    """Return a store's bytes.

    Raises:
      BadStore: the file cannot be read, or is too large for a store.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_STORE_BYTES + 1)
    except OSError as error:
        raise BadStore(f"it cannot be read: {error.strerror}") from None
    if len(data) > MAX_STORE_BYTES:
        raise BadStore(f"it is larger than {MAX_STORE_BYTES} bytes")
    return data


def _place(name: str, store: StoreSettings) -> str:
    return f"{name}.location={store.path}" if store.path is not None else name
