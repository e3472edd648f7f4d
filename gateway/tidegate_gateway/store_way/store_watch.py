"""While this gateway does not reach the object store and others do, they serve (decision 40).

It looks a few times a second.  The rules are in store_way.py and marks.py:

- If its way is broken and another gateway takes work, it marks itself in the metadata log.
- While it is marked, it stores an empty object and commits it, which removes the mark.
- If the others prove their way meanwhile, it is cut off: its batches that wait are abandoned by
  events, and then refused, so that their producers may send them to another gateway.  It refuses
  clients a moment after the others were proven: then they, too, name other leaders already.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_storage.objects.keys import OWNER_KEY
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)

from ..upkeep.upkeep import Upkeep
from .marks import Marks, signs_of
from .store_proof import StoreProof
from .store_way import StoreWay

LOOK_SECONDS: Final = 0.25
MARK_AGAIN_SECONDS: Final = 5.0
REFUSE_AFTER_SECONDS: Final = 0.5
READ_AGAIN_SECONDS: Final = 0.5
READ_SECONDS: Final = 10.0

_log = structlog.get_logger("tidegate.gateway")


class StoreWatch:
    """See the module's head.

    Args:
      way: what the calls of this gateway tell.
      give_up: abandons the objects that wait for the store.
      store: for trial reads of an object that every prefix has.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        way: StoreWay,
        proof: StoreProof,
        give_up: Callable[[], None],
        store: ObjectStore,
        upkeep: Upkeep,
    ) -> None:
        self.way = way
        self.proof = proof
        self._coordinator = coordinator
        self._give_up = give_up
        self._store = store
        self._upkeep = upkeep
        self._marks = Marks()
        self._marked_at = -inf
        self._avoided_since: float | None = None
        self._is_proving = False
        self._is_marking = False

    @property
    def avoided(self) -> frozenset[int]:
        """The incarnations that clients are not sent to; may include this gateway's own."""
        return self._marks.avoided

    async def run(self) -> None:
        """Look, forever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._try_reads)
            while True:
                await trio.sleep(LOOK_SECONDS)
                self._look(trio.current_time(), nursery)

    def _look(self, now: float, nursery: trio.Nursery) -> None:
        me, marks = self._coordinator.incarnation, self._marks
        marks.look(signs_of(self._coordinator.state), now)
        is_broken = self.way.is_broken(now)
        is_marked = marks.is_marked(me)
        self._note_cut(now, is_broken=is_broken)
        may_mark = not self._is_marking and now - self._marked_at >= MARK_AGAIN_SECONDS
        if is_broken and not is_marked and may_mark and marks.has_well_others(me):
            self._marked_at, self._is_marking = now, True
            nursery.start_soon(self._mark)
        may_remove = is_marked and not self.way.gets.is_broken(now)
        if (may_remove or marks.wants_proof(me, now)) and not self._is_proving:
            self._is_proving = True
            nursery.start_soon(self._prove)

    def _note_cut(self, now: float, *, is_broken: bool) -> None:
        # Once cut off it stays so until the log has its commit, which comes after the events by
        # which it gave objects up: else a later batch could be taken before an earlier one is
        # refused.
        may_serve = not is_broken and not self.way.is_cut_off
        is_avoided = not may_serve and self._coordinator.incarnation in self.avoided
        if not is_avoided:
            self._avoided_since = None
        elif self._avoided_since is None:
            self._avoided_since = now
        since = self._avoided_since
        is_cut_off = since is not None and now - since >= REFUSE_AFTER_SECONDS
        if is_cut_off and not self.way.is_cut_off:
            why = self.way.why
            _log.warning("cut off from the object store; clients are sent elsewhere", why=why)
            self.way.is_cut_off = True
            self._give_up()
        elif self.way.is_cut_off and not is_cut_off:
            _log.info("no longer cut off from the object store; serving as before")
            self.way.is_cut_off = False

    async def _mark(self) -> None:
        try:
            await self._upkeep.attempt("mark this gateway in the metadata log", self.proof.mark)
        finally:
            self._is_marking = False

    async def _prove(self) -> None:
        async def prove() -> None:
            await self.proof.prove(self.way.puts)

        try:
            await self._upkeep.attempt("prove the way to the object store", prove)
        finally:
            self._is_proving = False

    async def _try_reads(self) -> None:
        """Read on trial while reads fail; forever."""
        while True:
            await trio.sleep(READ_AGAIN_SECONDS)
            if self.way.read_failed or self.way.gets.failing_since is not None:
                await self._try_read()

    async def _try_read(self) -> None:
        began = trio.current_time()
        self.way.read_failed = False
        try:
            with trio.move_on_after(READ_SECONDS):
                await self._store.get(OWNER_KEY)
                self.way.gets.succeeded(trio.current_time())
                return
            self.way.gets.failed(began, "no answer")
        except NoSuchObject:
            self.way.gets.succeeded(trio.current_time())
        except (StoreUnavailable, StoreMisconfigured) as error:
            self.way.gets.failed(began, str(error))
