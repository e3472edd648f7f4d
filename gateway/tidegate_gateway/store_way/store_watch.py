"""If this gateway does not reach the object store, gateways that do serve instead (decision 40).

The gateway checks this a few times a second.  The rules are in store_way.py and marks.py:

- If its way to the store is broken, and an unmarked gateway takes new work, it marks itself in the
  metadata log.
- While it is marked, it tries to store an empty object and commit it, which removes the mark.
- If other gateways prove their way meanwhile, it is cut off.  It then abandons its waiting batches
  by events in the log, and refuses them, so that producers can send them to another gateway.  It
  refuses clients a moment after the others were proven, so that by then Metadata of all gateways
  names other leaders.

If only its reads fail, its commits would remove its mark.  So it holds its commits until it is cut
off, but at most HOLD_SECONDS; after that, it removes its mark.  A gateway that sees another
gateway's mark makes a trial read, and holds its commits until this read succeeds.  So its commits
prove that both its PUTs and its reads work.  If the reads of all gateways fail, no gateway proves
anything until the mark is gone, and none is cut off.
"""

from __future__ import annotations

from math import inf
from typing import Final, Protocol

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
HOLD_SECONDS: Final = 6.0
"""Longer than it takes until a gateway is cut off after its mark."""
MARK_AGAIN_FOR_READS_SECONDS: Final = 60.0
"""A mark for reads alone may be in vain, and holds commits."""

_log = structlog.get_logger("tidegate.gateway")


class Writer(Protocol):
    """The WAL writer."""

    def give_up(self) -> None:
        """Abandon the objects that are not committed."""
        ...

    def commit_in_order(self) -> None:
        """Commit the objects whose commits were held, in order."""
        ...


class StoreWatch:
    """See the module's head.

    Args:
      way: the outcomes of this gateway's calls.
      store: for trial reads of an object that exists in every prefix.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        way: StoreWay,
        proof: StoreProof,
        writer: Writer,
        store: ObjectStore,
        upkeep: Upkeep,
    ) -> None:
        self.way = way
        self.proof = proof
        self._coordinator = coordinator
        self._writer = writer
        self._store = store
        self._upkeep = upkeep
        self._marks = Marks()
        self._marked_at = -inf
        self._avoided_since: float | None = None
        self._asked_at: float | None = None
        self._held_since: float | None = None
        self._is_proving = False
        self._is_marking = False

    @property
    def avoided(self) -> frozenset[int]:
        """The incarnations to which clients are not sent; may include this gateway's own."""
        return self._marks.avoided

    async def run(self) -> None:
        """Check, mark and prove as the module's docstring says; forever."""
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
        if is_broken and not is_marked and self._may_mark(now) and marks.has_well_others(me):
            self._marked_at, self._is_marking = now, True
            nursery.start_soon(self._mark)
        if not marks.asks(me):
            self._asked_at = None
        elif self._asked_at is None:
            self._asked_at = now
            nursery.start_soon(self._try_read)
        self._hold(now, is_marked=is_marked)
        wants_proof = is_marked or marks.wants_proof(me, now)
        may_prove = self._can_read(now) or (is_marked and self._has_held(now))
        if wants_proof and may_prove and not self._is_proving:
            self._is_proving = True
            nursery.start_soon(self._prove)

    def _may_mark(self, now: float) -> bool:
        again = MARK_AGAIN_FOR_READS_SECONDS
        if self.way.puts.is_broken(now):
            again = MARK_AGAIN_SECONDS
        return not self._is_marking and now - self._marked_at >= again

    def _can_read(self, now: float) -> bool:
        """Return whether reads work.

        If another gateway is marked, a read must have succeeded since the mark was seen.
        """
        gets = self.way.gets
        is_tried = self._asked_at is None or gets.succeeded_at >= self._asked_at
        return is_tried and not gets.is_broken(now)

    def _has_held(self, now: float) -> bool:
        """Return whether commits were held for HOLD_SECONDS without being cut off."""
        return self._held_since is not None and now - self._held_since >= HOLD_SECONDS

    def _hold(self, now: float, *, is_marked: bool) -> None:
        """Hold commits that would prove working reads while reads fail, or stop holding them."""
        is_concerned = is_marked or self._is_marking or self._asked_at is not None
        if self.way.is_cut_off or not is_concerned or self._can_read(now):
            self._held_since = None
        elif self._held_since is None:
            self._held_since = now
        held = self.way.holds_commits
        self.way.holds_commits = self._held_since is not None and not self._has_held(now)
        if held and not self.way.holds_commits:
            self._writer.commit_in_order()

    def _note_cut(self, now: float, *, is_broken: bool) -> None:
        # Once cut off, the gateway stays cut off until its next commit is in the log.  This commit
        # comes after the events that abandon its objects.  Otherwise a later batch could be
        # accepted before an earlier one is refused.
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
            self._writer.give_up()
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
        """Make trial reads while reads fail; forever."""
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
