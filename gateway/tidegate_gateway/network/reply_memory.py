"""How much memory the fetches of all connections take: loaded records, and unsent replies.

No fetch waits for this memory.  A fetch gets a limit for its reply: a share of the free memory, so
that earlier clients, and clients that do not read, leave memory to all others.  The limit is never
less than a few small batches, since tiny replies would cost more than they save.  A fetch always
gets its first batch (KIP-74).  So a connection that does not read exceeds the bound by one batch,
and by MAX_UNSENT_BYTES if it sends more requests.

Parts that lie in files count nothing once they can be sent.  Parts that the cache holds count like
all others: the cache may drop them before they are sent.  Only the bytes to send count: a part of
an object that this gateway wrote keeps the whole object in memory, however small the part is.
"""

from __future__ import annotations

from typing import Final

from tidegate_runtime.histograms import Histogram

# One reply may take a quarter of the free memory: of 256 MiB as much as fetch.max.bytes by default.
SHARES: Final = 4
# The socket of a client that reads takes this much at once.
MIN_REPLY_BYTES: Final = 64 << 10
MIN_BYTES: Final = 64 << 20


class ReplyMemory:
    """used_bytes: of replies that wait to be sent, and of records that are loaded for others.

    send_times: of replies that their client did not take at once, until it had taken all of them.
    """

    __slots__ = ("max_bytes", "send_times", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self.send_times = Histogram()

    @property
    def reply_bytes(self) -> int:
        """The limit of one more reply, in bytes."""
        return max((self.max_bytes - self.used_bytes) // SHARES, MIN_REPLY_BYTES)


def reply_memory(cache_bytes: int) -> ReplyMemory:
    """Return a bound as large as the fetch cache: the memory that a gateway has to spare."""
    return ReplyMemory(max(cache_bytes, MIN_BYTES))
