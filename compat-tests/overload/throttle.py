"""A TCP proxy with a bandwidth cap, as a process of its own.

    python compat-tests/overload/throttle.py --listen 9000 --to 127.0.0.1:8333 --bytes-per-second N

Each direction has one token bucket that all connections share, so many uploads at once are slowed
like those through one narrow link.  A line with a number on standard input sets a new cap, 0 for
none; the end of standard input ends the proxy.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import trio

PIECE_BYTES = 64 << 10
BURST_SECONDS = 0.05


@dataclass(slots=True)
class Bucket:
    """A cap on a stream of bytes: a caller waits until all earlier bytes passed.  0: no cap."""

    bytes_per_second: float
    _free_at: float = 0.0

    async def take(self, size_bytes: int) -> None:
        """Wait until these bytes may pass."""
        if not self.bytes_per_second:
            return
        now = trio.current_time()
        self._free_at = max(self._free_at, now - BURST_SECONDS)
        self._free_at += size_bytes / self.bytes_per_second
        while True:  # the cap may be lifted meanwhile
            wait = self._free_at - trio.current_time()
            if wait <= 0 or not self.bytes_per_second:
                return
            await trio.sleep(min(wait, 0.25))


class Proxy:
    """Forwards connections to one address."""

    def __init__(self, host: str, port: int, bytes_per_second: float) -> None:
        self._to = (host, port)
        self._buckets = (Bucket(bytes_per_second), Bucket(bytes_per_second))

    def cap(self, bytes_per_second: float) -> None:
        """Set a new cap.  It takes effect within a quarter of a second."""
        for bucket in self._buckets:
            bucket.bytes_per_second = bytes_per_second
            bucket._free_at = 0.0

    async def serve(self, client: trio.SocketStream) -> None:
        """Forward one connection until either side closes."""
        try:
            server = await trio.open_tcp_stream(*self._to)
        except OSError:
            await client.aclose()
            return
        up, down = self._buckets
        async with client, server, trio.open_nursery() as nursery:
            nursery.start_soon(_pump, client, server, up, nursery.cancel_scope)
            nursery.start_soon(_pump, server, client, down, nursery.cancel_scope)


async def _pump(
    source: trio.SocketStream, sink: trio.SocketStream, bucket: Bucket, scope: trio.CancelScope
) -> None:
    try:
        while data := await source.receive_some(PIECE_BYTES):
            await bucket.take(len(data))
            await sink.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    scope.cancel()


async def run(options: argparse.Namespace) -> None:
    """Serve until standard input ends."""
    host, port = options.to.rsplit(":", 1)
    proxy = Proxy(host, int(port), options.bytes_per_second)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(options.listen, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, proxy.serve, listeners)
        print("ready", flush=True)
        commands = trio.lowlevel.FdStream(0)
        while line := await commands.receive_some(100):
            proxy.cap(float(line.split()[-1]))
        nursery.cancel_scope.cancel()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="a TCP proxy with a bandwidth cap")
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("--to", required=True)
    parser.add_argument("--bytes-per-second", type=float, default=0.0)
    trio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
