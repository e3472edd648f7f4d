"""WAL objects on their way from sealing to their commit; see wal_writer.py."""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from tidegate_storage.objects.wal import SealedWal

from .produce_times import ObjectTimes
from .wal_commits import MirroredToken


@dataclass(slots=True, eq=False)
class SealedObject:
    """A sealed object that is being stored or committed.

    key: in the store.  mirrored: the tokens of its mirrored batches.  sealing_at, sealed_at,
      stored_at: seconds on Trio's clock.  clients: the bytes by client id, from wrote().  putting:
      cancels the PUT.
    is_inlined: it travels in the metadata log, and is not stored.
    """

    wal: SealedWal
    key: str
    mirrored: list[MirroredToken]
    sealing_at: float
    sealed_at: float
    clients: dict[str, int]
    stored_at: float = -1.0
    given_up: bool = False
    is_inlined: bool = False
    putting: trio.CancelScope = field(default_factory=trio.CancelScope)

    @property
    def times(self) -> ObjectTimes:
        """Return its times, once it is stored."""
        return ObjectTimes(self.sealing_at, self.sealed_at, self.stored_at)
