"""Certificates for tests, and the client's end of a TLS connection over any transport."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import trustme

from tidegate_gateway.network.memory_transport import MemoryTransport
from tidegate_gateway.network.transport import Part, TransportBroken
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.tls.tls_listeners import TlsListeners, open_tls_listeners
from tidegate_gateway.work.blocking import Inline
from tidegate_runtime.tls.contexts import present
from tidegate_runtime.tls.stores import read_key_entry
from tidegate_storage.stores.files.file_part import FilePart

CHUNK_BYTES = 64 << 10
ANN = r"User:CN=ann,OU=a\+b,O=acme"


@dataclass(frozen=True)
class Authority:
    """A certificate authority with a certificate for the gateway and one for a client.

    server, client: key and chain in PEM.  root: the certificate in PEM.
    """

    ca: trustme.CA
    server: str
    client: str

    @property
    def root(self) -> str:
        return self.ca.cert_pem.bytes().decode()


def pem(issued: trustme.LeafCert) -> str:
    """Return key and chain in PEM."""
    return issued.private_key_and_cert_chain_pem.bytes().decode()


@cache
def authority(number: int = 0) -> Authority:
    """Return the authority with a number, from a cache, since making keys takes a moment.

    number: authorities with different numbers do not trust each other.
    """
    ca = trustme.CA(organization_name=f"authority {number}")
    server = pem(ca.issue_cert("gateway.test", common_name="gateway"))
    client = pem(
        ca.issue_cert(
            "ann@example.com",
            common_name="ann",
            organization_name="acme",
            organization_unit_name="a+b",
        )
    )
    return Authority(ca, server, client)


def client_context(trusted: str, own: str = "") -> ssl.SSLContext:
    """Return a client's context.  own: key and chain in PEM; "" for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=trusted)
    if own:
        present(context, read_key_entry(own.encode(), None, None))
    return context


def opened(
    settings: dict[str, str] | None = None, now: Callable[[], float] | None = None
) -> TlsListeners:
    """Return a listener SSL with the authority's certificate.

    now: seconds since 1970.
    """
    key, _, chain = authority().server.partition("-----BEGIN CERTIFICATE")
    texts = {
        "listeners": "SSL://127.0.0.1:9093",
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE{chain}",
        "ssl.truststore.certificates": authority().root,
        **(settings or {}),
    }
    if "ssl.keystore.location" in texts:
        del texts["ssl.keystore.key"], texts["ssl.keystore.certificate.chain"]
    given = BrokerSettings(texts)
    return open_tls_listeners(given, ["SSL"], now or time.time, Inline())


class TlsClientTransport:
    """The client's end of TLS, as a Transport.

    It is written apart from the gateway's transport, so that each checks the other.

    piece_bytes: the most ciphertext that it moves at once.
    """

    def __init__(
        self, inner: MemoryTransport, context: ssl.SSLContext, *, piece_bytes: int = CHUNK_BYTES
    ) -> None:
        self.inner = inner
        self.outgoing = ssl.MemoryBIO()
        self._incoming = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self.outgoing, server_hostname="gateway.test")
        self._buffer = memoryview(bytearray(piece_bytes))
        self._unsent = b""
        self._held_bytes = 0  # plaintext bytes whose ciphertext is not sent yet
        self._has_ended = False

    @property
    def peer(self) -> tuple[str, int]:
        return self.inner.peer

    async def handshake(self) -> None:
        """Negotiate.

        Raises:
          ssl.SSLError, TransportBroken: the gateway refused.
        """
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.push()
                await self.inner.wait_receivable()
                if self._pull() == 0:
                    raise TransportBroken("closed within the handshake") from None
            else:
                return await self.push()

    async def push(self) -> None:
        """Send all ciphertext there is, in pieces."""
        while not self._push():
            await self.inner.wait_sendable()

    def _push(self) -> bool:
        while self._unsent or self.outgoing.pending:
            self._unsent = self._unsent or self.outgoing.read(len(self._buffer))
            sent = self.inner.send_nowait([self._unsent])
            self._unsent = self._unsent[sent:]
            if not sent:
                return False
        return True

    def _pull(self) -> int | None:
        size = self.inner.receive_nowait(self._buffer)
        if size:
            self._incoming.write(self._buffer[:size])
        self._has_ended = size == 0
        return size

    # -- Transport --------------------------------------------------------------------------------

    async def wait_receivable(self) -> None:
        if not self._incoming.pending and not self.tls.pending():
            await self.inner.wait_receivable()

    def receive_nowait(self, buffer: memoryview) -> int | None:
        while True:
            try:
                data = self.tls.read(len(buffer))
            except ssl.SSLWantReadError:
                if self._pull():
                    continue
                return 0 if self._has_ended else None
            buffer[: len(data)] = data
            return len(data)

    def send_nowait(self, parts: Sequence[Part]) -> int:
        if not self._push():
            return 0
        if not self._held_bytes:
            [part] = parts
            assert not isinstance(part, FilePart)
            self._held_bytes = self.tls.write(part[:CHUNK_BYTES])
            if not self._push():
                return 0
        size, self._held_bytes = self._held_bytes, 0
        return size

    async def wait_sendable(self) -> None:
        await self.push()

    def is_gone(self) -> bool:
        return self.inner.is_gone()

    def close(self) -> None:
        self.inner.close()

    def reset(self) -> None:
        self.inner.reset()
