"""TLS around any Transport: `ssl.MemoryBIO` between OpenSSL and the bytes of the network.

It runs on sockets and on their twin in memory, and behind a PROXY header.  OpenSSL's buffers have
no limit, so each turn has one.  Ciphertext is read only when OpenSSL wants more, at most TURN_BYTES
at once.  At most TURN_BYTES of plaintext are encrypted at once.

Plaintext counts as sent when its ciphertext has left.  Until then the caller keeps its parts and
calls again with them, as with bytes that a full socket did not take.  So unsent replies are counted
in one place (replies.py), and a client that does not read costs one turn of ciphertext in addition.

A part in a file is not sent by the kernel, but read; a thread loads it into memory first.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, cast

import trio

from tidegate_runtime.tls.contexts import tls_reason
from tidegate_storage.stores.files.file_part import FileChanged, FilePart

from .transport import Buffer, Part, Transport, TransportBroken

TURN_BYTES: Final = 256 << 10
# A handshake reads less at once, since bytes after the handshake would not count against any limit.
HANDSHAKE_READ_BYTES: Final = 16 << 10
# A chain of client certificates has a few KiB; OpenSSL refuses one of more than 100 KiB.
MAX_HANDSHAKE_BYTES: Final = 128 << 10
# OpenSSL's own answers, such as those to key updates.
MAX_OWN_BYTES: Final = 64 << 10
_HANDSHAKE_RECORD: Final = 0x16
# The alert unexpected_message, fatal, in a record of TLS 1.2.
PLAINTEXT_REFUSED: Final = b"\x15\x03\x03\x00\x02\x02\x0a"

# A shared buffer for received ciphertext; OpenSSL gets the bytes before another task runs.
_scratch = memoryview(bytearray(TURN_BYTES))


class HandshakeFailed(Exception):
    """The handshake failed: close the connection.  The text is the reason for the log."""


class TlsTransport:
    """See the module's head, and Transport.  handshake() comes first.

    Args:
      probe: plaintext with these bytes comes from other gateways, and is not logged.
    """

    def __init__(self, inner: Transport, context: ssl.SSLContext, probe: bytes = b"") -> None:
        self._inner = inner
        self._probe = probe
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        # typeshed does not know that read() takes a memoryview and returns a number.
        self._read = cast("Callable[[int, memoryview], int]", self._tls.read)
        self._ciphertext = memoryview(b"")  # encrypted, and not sent
        self._encrypted_bytes = 0  # the plaintext bytes in self._ciphertext and self._outgoing
        self._has_more = False  # OpenSSL may hold plaintext or whole records
        self._is_ended = False  # the peer sends no more
        self._on_disk: FilePart | None = None
        self._is_brought = False

    @property
    def peer(self) -> tuple[str, int]:
        """See Transport."""
        return self._inner.peer

    # -- handshake --------------------------------------------------------------------------------

    async def handshake(self, turn: trio.Lock) -> None:
        """Negotiate.  The caller sets a deadline.

        Args:
          turn: held for each step of OpenSSL, across a checkpoint.  So all handshakes that share it
            together do one step, then all other tasks run, however many clients connect.

        Raises:
          HandshakeFailed: with the reason; the peer got an alert if TLS has one for this reason.
          TransportBroken: the peer is gone, or only tested whether the port is open.
        """
        received = 0
        while True:
            try:
                async with turn:
                    self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._send_own()
                received += await self._receive_handshake(is_first=not received)
                if received > MAX_HANDSHAKE_BYTES:
                    raise HandshakeFailed("its TLS handshake is too long") from None
            except ssl.SSLError as error:
                self._say_last()
                raise HandshakeFailed(f"TLS handshake failed: {tls_reason(error)}") from None
            else:
                await self._send_own()
                self._has_more = self._incoming.pending > 0
                return

    async def _receive_handshake(self, *, is_first: bool) -> int:
        while True:
            size = self._inner.receive_nowait(_scratch[:HANDSHAKE_READ_BYTES])
            if size:
                break
            if size is None:
                await self._inner.wait_receivable()
            else:
                raise TransportBroken("closed within its handshake")
        if is_first and _scratch[0] != _HANDSHAKE_RECORD:
            self._refuse_plaintext(bytes(_scratch[:size]))
        self._incoming.write(_scratch[:size])
        return size

    def _refuse_plaintext(self, data: bytes) -> None:
        """Answer with an alert, which also shows other gateways that this one runs."""
        with suppress(TransportBroken):
            self._inner.send_nowait([PLAINTEXT_REFUSED])
        if self._probe and self._probe in data:
            raise TransportBroken("another gateway's probe")
        raise HandshakeFailed("client spoke no TLS to a listener with TLS")

    async def _send_own(self) -> None:
        while not self._push():
            await self._inner.wait_sendable()

    def client_certificate(self) -> bytes | None:
        """Return the client's verified certificate in DER; None without one."""
        return self._tls.getpeercert(binary_form=True)

    def cipher_suite(self) -> str:
        """Return OpenSSL's name of the cipher suite in use."""
        found = self._tls.cipher()
        return found[0] if found else ""

    # -- receiving --------------------------------------------------------------------------------

    async def wait_receivable(self) -> None:
        """See Transport."""
        # Bytes in OpenSSL's buffers do not make the socket readable.
        if self._has_more or self._is_ended:
            await trio.lowlevel.checkpoint()
        else:
            await self._inner.wait_receivable()

    def receive_nowait(self, buffer: memoryview) -> int | None:
        """See Transport.  This also returns None for an incomplete record."""
        buffer = buffer[:TURN_BYTES]
        with _broken():
            size = self._decrypt(buffer) if self._has_more else 0
            if not size and not self._is_ended and self._feed():
                size = self._decrypt(buffer)
            if self._outgoing.pending:
                self._answer()
        return size or (0 if self._is_ended else None)

    def _feed(self) -> bool:
        """Pass received ciphertext to OpenSSL; return whether there was any."""
        size = self._inner.receive_nowait(_scratch)
        if size == 0:
            # Many clients close without close_notify; Kafka's frames show whether a request was
            # cut.
            self._is_ended = True
        if not size:
            return False
        self._incoming.write(_scratch[:size])
        return True

    def _decrypt(self, buffer: memoryview) -> int:
        """Read records until the buffer is full or OpenSSL wants ciphertext."""
        size, room = 0, len(buffer)
        try:
            while size < room:
                got = self._read(room - size, buffer[size:])
                if not got:  # the peer sent close_notify
                    self._is_ended = True
                    break
                size += got
        except ssl.SSLWantReadError:
            self._has_more = False
            return size
        self._has_more = not self._is_ended
        return size

    def _answer(self) -> None:
        """Send OpenSSL's own answers, as far as the network takes them."""
        if not self._push() and self._outgoing.pending > MAX_OWN_BYTES:
            raise TransportBroken("it does not read answers of TLS itself")

    # -- sending ----------------------------------------------------------------------------------

    def send_nowait(self, parts: Sequence[Part]) -> int:
        """See Transport.  Call it again with the parts that it did not send."""
        with _broken():
            if not self._push():
                return 0
            sent, self._encrypted_bytes = self._encrypted_bytes, 0
            self._encrypted_bytes = self._encrypt(parts, sent)
            if self._push():
                sent, self._encrypted_bytes = sent + self._encrypted_bytes, 0
            return sent

    def _push(self) -> bool:
        """Send ciphertext; return whether none is left."""
        while True:
            if not self._ciphertext:
                if not self._outgoing.pending:
                    return True
                self._ciphertext = memoryview(self._outgoing.read())
            size = self._inner.send_nowait([self._ciphertext])
            self._ciphertext = self._ciphertext[size:]
            if self._ciphertext:
                return False

    def _encrypt(self, parts: Sequence[Part], skipped: int) -> int:
        """Encrypt up to TURN_BYTES of the parts, after the skipped bytes; return how many."""
        size = 0
        for part in parts:
            if skipped >= len(part):
                skipped -= len(part)
                continue
            end = skipped + TURN_BYTES - size
            if isinstance(part, FilePart):
                piece = self._loaded(part[skipped:], end - skipped)
            else:
                piece = memoryview(part)[skipped:end]
            if piece is None:
                break
            skipped = 0
            self._tls.write(piece)
            size += len(piece)
            if size == TURN_BYTES:
                break
        return size

    def _loaded(self, part: FilePart, max_bytes: int) -> Buffer | None:
        """Return the first bytes of a file; None if a thread must first load them into memory."""
        if not self._is_brought and not part[:max_bytes].is_in_memory():
            self._on_disk = part[:TURN_BYTES]
            return None
        self._is_brought = False
        return part.take(max_bytes)

    async def wait_sendable(self) -> None:
        """See Transport.  If the next part is only on the disk, a thread reads it first."""
        await self._inner.wait_sendable()
        if self._on_disk is not None:
            try:
                await self._on_disk.bring()
            except FileChanged as error:
                raise TransportBroken(str(error)) from error
            self._on_disk = None
            # Skip the next check: some file systems cannot say what is in memory.
            self._is_brought = True

    # -- closing ----------------------------------------------------------------------------------

    def is_gone(self) -> bool:
        """See Transport."""
        return self._inner.is_gone()

    def close(self) -> None:
        """See Transport.  This sends close_notify if no bytes are left to send."""
        if not self._ciphertext and not self._encrypted_bytes:
            with suppress(ssl.SSLError, ValueError):
                self._tls.unwrap()
            self._say_last()
        self._inner.close()

    def _say_last(self) -> None:
        with suppress(TransportBroken):
            self._push()


@contextmanager
def _broken() -> Generator[None]:
    try:
        yield
    except (ssl.SSLError, FileChanged) as error:
        raise TransportBroken(str(error)) from error
