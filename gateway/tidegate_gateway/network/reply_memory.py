"""The memory of the fetches of all connections: loaded records, and unsent replies.

No fetch waits for this memory.  A fetch gets a limit for its reply: a share of the free memory, so
that earlier clients, and clients that do not read, leave memory to all others.  The limit is at
least a few small batches, since the overhead of tiny replies would exceed the saved memory.  A
fetch always gets its first batch (KIP-74).  So a connection that does not read can exceed the bound
by one batch, and by MAX_UNSENT_BYTES if it sends more requests.

Parts in files do not count once they can be sent.  Parts in the cache count like all others, since
the cache may evict them before they are sent.  Only the bytes to send count, although even a small
part of an object that this gateway wrote keeps the whole object in memory.
"""

from __future__ import annotations

from typing import Final

from tidegate_runtime.histograms import Histogram

# A reply may take a quarter of the free memory.  A quarter of 256 MiB is more than the default of
# fetch.max.bytes.
SHARES: Final = 4
# The socket of a client that reads takes this much at once.
MIN_REPLY_BYTES: Final = 64 << 10
MIN_BYTES: Final = 64 << 20


class ReplyMemory:
    """used_bytes: of replies that wait to be sent, and of records that are loaded for replies.

    send_times: of replies that a client did not take at once, until it had taken them.
    """

    __slots__ = ("max_bytes", "send_times", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.send_times = Histogram()

    @property
    def reply_bytes(self) -> int:
        """The limit of a further reply, in bytes."""
        return max((self.max_bytes - self.used_bytes) // SHARES, MIN_REPLY_BYTES)


def reply_memory(cache_bytes: int) -> ReplyMemory:
    """Return a limit as large as the fetch cache, but at least MIN_BYTES.

    The size of the cache shows how much memory the gateway has to spare.
    """
    return ReplyMemory(max(cache_bytes, MIN_BYTES))
