"""Forgets transactional ids that were not used for long (`transactional.id.expiration.ms`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from ...events.transactions import TransactionalIdsExpired
from ..proposal import NOTHING, Decided, View

MAX_EXPIRED = 500
"""Ids in one event; Kafka bounds none, and clients choose names of up to 32 KiB."""
MAX_EXPIRED_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class ExpireTransactionalIds:
    """Forget ids that were not used for `expiration_ms` of log time.

    Answer: whether to propose it again, as one event does not hold all.
    """

    expiration_ms: int
    reads: frozenset[str] = field(default=NOTHING, init=False)
    writes: frozenset[str] = field(default=NOTHING, init=False)

    def decide(self, view: View) -> Decided[bool]:
        """See the class."""
        names: list[str] = []
        size_bytes = 0
        for name in islice(self._idle(view), MAX_EXPIRED):
            size_bytes += len(name)
            if names and size_bytes > MAX_EXPIRED_BYTES:
                break
            names.append(name)
        for name in names:
            view.transactions.forget(name)
        is_full = len(names) == MAX_EXPIRED or size_bytes > MAX_EXPIRED_BYTES
        return Decided((TransactionalIdsExpired(tuple(names)),) if names else (), is_full)

    def _idle(self, view: View) -> Iterator[str]:
        before_ms = view.log_time_ms - self.expiration_ms
        for name in view.state.transactions.idle_since(before_ms):
            found = view.transactions.of_name(name)
            if found is not None and not found.row.is_open and found.row.updated_ms < before_ms:
                yield name
