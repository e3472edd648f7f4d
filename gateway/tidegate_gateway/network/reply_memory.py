"""How much memory fetches take, of all connections together: what they load, and unsent replies.

Nobody waits for it.  A fetch learns how large its reply may become: a share of what is left, so
that those who came first, or who do not read, leave something to all others; and never less than
a few small batches, for tiny replies would cost more than they save.  The first batch is given
whatever is left (KIP-74).  So a connection that does not read passes the bound by a batch, and by
MAX_UNSENT_BYTES if it goes on asking.

Parts that lie in files count nothing, once they can be sent.  Those that the cache holds, too,
count like all others: it may let them go before they are sent.  What counts is what is sent: a
part of an object that was written here keeps the whole object in memory, however small it is.
"""

from __future__ import annotations

from typing import Final

# One reply may take a quarter of what is left: of 256 MiB as much as fetch.max.bytes by default.
SHARES: Final = 4
# The sockets of those who read take that much at once.
MIN_REPLY_BYTES: Final = 64 << 10
MIN_BYTES: Final = 64 << 20


class ReplyMemory:
    """used_bytes: of replies that wait to be sent, and of what is being loaded for others."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0

    @property
    def reply_bytes(self) -> int:
        """Return how large one more reply may become."""
        return max((self.max_bytes - self.used_bytes) // SHARES, MIN_REPLY_BYTES)


def reply_memory(cache_bytes: int) -> ReplyMemory:
    """Return one as large as the cache of what is fetched, which is what a gateway has to spare."""
    return ReplyMemory(max(cache_bytes, MIN_BYTES))
