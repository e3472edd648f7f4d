"""An empty WAL object, which this gateway stores and commits to prove that it reaches the store.

The PUT is repeated under the same id until it succeeds, so a waiting proof adds no entries to the
log.  An object without batches is dead once it is committed, and is collected like any dead object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.records.wal import AbandonWal, CommitWal
from tidegate_coordination.state.records.objects import WalName
from tidegate_storage.objects.wal import OpenWal, WalIdentity
from tidegate_storage.stores.object_store import (
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
    put_idempotent,
)

from .store_way import Way

AGAIN_SECONDS: Final = 0.5
PUT_SECONDS: Final = 10.0


class StoreProof:
    """See the module's head.

    Args:
      next_identity: takes the next WAL id.  key_of: returns the object key of an id.
    """

    def __init__(
        self,
        store: ObjectStore,
        coordinator: Coordinator,
        next_identity: Callable[[], WalIdentity],
        key_of: Callable[[WalIdentity], str],
    ) -> None:
        self._store = store
        self._coordinator = coordinator
        self._next_identity = next_identity
        self._key_of = key_of

    async def prove(self, puts: Way) -> None:
        """Store an empty object and commit it; wait until the store takes it.

        Raises:
          CoordinatorUnavailable, ProposalFailed: the object may not be committed.
          ObjectExists: another gateway's object has its key.
        """
        identity = self._next_identity()
        body = OpenWal().seal(identity).body
        key = self._key_of(identity)
        await self._put(key, body, puts)
        await self._coordinator.propose(CommitWal(_name(identity), len(body), []))

    async def mark(self) -> None:
        """Abandon an id that no object has: see marks.py.

        Raises:
          CoordinatorUnavailable, ProposalFailed: the id may not be abandoned.
        """
        await self._coordinator.propose(AbandonWal(_name(self._next_identity())))

    async def _put(self, key: str, body: bytearray, puts: Way) -> None:
        while True:
            began = trio.current_time()
            try:
                with trio.move_on_after(PUT_SECONDS):
                    await put_idempotent(self._store, key, body)
                    puts.succeeded(trio.current_time())
                    return
                puts.failed(began, "no answer")
            except (StoreUnavailable, StoreMisconfigured) as error:
                puts.failed(began, str(error))
            await trio.sleep(AGAIN_SECONDS)


def _name(identity: WalIdentity) -> WalName:
    return WalName(identity.incarnation, identity.counter)
