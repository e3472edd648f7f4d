"""A process of strangers, clients without a login: at each port, as many silent as dripping ones.

A silent stranger sends nothing, and a dripping one a byte a second.  If the gateway closes its
connection, a stranger waits a second, and connects again.  Strangers come from a few addresses of
the loopback.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import Final

import trio

AGAIN_SECONDS: Final = 1.0
DRIP_SECONDS: Final = 1.0
ADDRESSES: Final = 4
ARRIVAL_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 60.0
# The beginnings of a request, of a TLS handshake, and of a frame of Kafka's.
HTTP: Final = b"GET /v1/log HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
HELLO: Final = bytes.fromhex("1603010200010001fc0303")
FRAME: Final = b"\0\0\0\x40\0\x12\0\3\0\0\0\1\0\x08"


@contextmanager
def crowding(ports: Sequence[tuple[int, bytes]], count: int) -> Generator[None]:
    """Have a crowd at each port during the block.

    ports: (port, the bytes that its dripping strangers send).
    """
    context = get_context("spawn")
    end, ready = context.Event(), context.Event()
    process = context.Process(target=_run, args=(ports, count, ready, end))
    process.start()
    try:
        if not ready.wait(PATIENCE_SECONDS):
            raise TimeoutError("the crowd did not come")
        yield
    finally:
        end.set()
        process.join(PATIENCE_SECONDS)


def _run(ports: Sequence[tuple[int, bytes]], count: int, ready: Event, end: Event) -> None:
    os.nice(19)  # in reality strangers use another machine's CPU
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    trio.run(_crowd, ports, count, ready, end)


async def _crowd(ports: Sequence[tuple[int, bytes]], count: int, ready: Event, end: Event) -> None:
    async with trio.open_nursery() as nursery:
        for port, words in ports:
            for number in range(count):
                source = f"127.0.1.{1 + number % ADDRESSES}"
                nursery.start_soon(_stay, port, source, b"")
                nursery.start_soon(_stay, port, source, words)
            await trio.sleep(ARRIVAL_SECONDS)
        ready.set()
        await trio.to_thread.run_sync(end.wait)
        nursery.cancel_scope.cancel()


async def _stay(port: int, source: str, words: bytes) -> None:
    while True:
        with suppress(OSError), trio.socket.socket() as connection:
            await connection.bind((source, 0))
            await connection.connect(("127.0.0.1", port))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_closed, connection, nursery.cancel_scope)
                if words:
                    nursery.start_soon(_drip, connection, words, nursery.cancel_scope)
        await trio.sleep(AGAIN_SECONDS)


async def _until_closed(connection: trio.socket.SocketType, scope: trio.CancelScope) -> None:
    with suppress(OSError):
        while await connection.recv(4096):
            pass
    scope.cancel()


async def _drip(connection: trio.socket.SocketType, words: bytes, scope: trio.CancelScope) -> None:
    with suppress(OSError):
        for byte in cycle(words):
            await connection.send(bytes([byte]))
            await trio.sleep(DRIP_SECONDS)
    scope.cancel()
