"""Puts keys and certificates into an ssl.SSLContext, without a file on the disk."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from tempfile import NamedTemporaryFile

from .bad_store import BadStore
from .pem import pem_of
from .stores import KeyEntry


def present(context: ssl.SSLContext, entry: KeyEntry) -> None:
    """Have a context present a key's certificates.

    Raises:
      BadStore: the key and its certificate do not belong together, or OpenSSL refuses them.
    """
    chain = b"".join(pem_of(each.der, "CERTIFICATE") for each in entry.chain)
    with _secret_file(entry.key + chain) as path:
        try:
            # Without a password callback OpenSSL would ask on the terminal.
            context.load_cert_chain(path, password=lambda: "")
        except ssl.SSLError as error:
            raise BadStore(f"its key or certificate cannot be used: {tls_reason(error)}") from None


def trust(context: ssl.SSLContext, certificates: Iterable[bytes]) -> None:
    """Have a context trust certificates, in DER, and no others.

    As in Java, each certificate is a trust anchor, even a peer's own.

    Raises:
      BadStore: OpenSSL refuses one.
    """
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        # One call for each certificate, because OpenSSL refuses a block with a repeated
        # certificate.
        for each in dict.fromkeys(certificates):
            context.load_verify_locations(cadata=each)
    except ssl.SSLError as error:
        raise BadStore(f"a certificate cannot be used: {tls_reason(error)}") from None


def tls_reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason in words; for a refused certificate, add why it was refused."""
    words = (error.reason or "TLS error").replace("_", " ").lower()
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{words}: {error.verify_message}"
    return words


@contextmanager
def _secret_file(data: bytes) -> Generator[str]:
    """Yield a path, which Python's ssl needs; on Linux it leads to memory."""
    if sys.platform != "linux":
        with NamedTemporaryFile("wb") as file:  # readable by its owner alone
            file.write(data)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as memory:
            memory.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
