"""Sealed objects in the order of sealing, in which they are committed.

An object that travels in the log is committed alone: until its answer is there, no later object is
handed on.  So if the log does not take it, it is stored, and nothing has overtaken it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from tidegate_storage.objects.wal import SealedWal

from ..store_way.store_way import StoreWay
from .sealed_object import SealedObject
from .wal_commits import WalCommits


class CommitOrder:
    """See the module's head.

    objects: those that are not handed on yet, in the order of sealing.
    store: begins the PUT of an object that was to travel in the log.
    inlining: the object that travels in the log, until the log has answered.
    """

    def __init__(
        self, commits: WalCommits, way: StoreWay, store: Callable[[SealedObject], None]
    ) -> None:
        self._commits = commits
        self._way = way
        self._store = store
        self.objects = deque[SealedObject]()
        self.inlining: SealedObject | None = None

    @property
    def are_inlined(self) -> bool:
        """Return whether all objects that wait travel in the log."""
        return all([each.is_inlined for each in self.objects])

    def take_out(self, sealed: SealedObject) -> bool:
        """Take an object out that will not be committed; return whether it was still waiting."""
        if sealed not in self.objects:
            return False
        self.objects.remove(sealed)
        return True

    def hand_on(self) -> None:
        """Propose to commit the objects whose turn it is."""
        while self.objects and self._is_next(self.objects[0]):
            sealed = self.objects.popleft()
            if sealed.given_up:
                self._commits.abandon(sealed.wal, is_cut_off=self._way.is_cut_off)
                continue
            instead = None
            if sealed.is_inlined:
                self.inlining = sealed
                instead = partial(self._store_instead, sealed)
            self._commits.commit(sealed.wal, sealed.key, sealed.mirrored, sealed.times, instead)

    def _is_next(self, sealed: SealedObject) -> bool:
        if self.inlining is not None:
            return False
        return sealed.given_up or (sealed.stored_at >= 0 and not self._way.holds_commits)

    def ended(self, wal: SealedWal) -> bool:
        """Note that an object was settled, or that its outcome is unknown; return whether it
        travelled in the log, so that later objects may follow.
        """
        if self.inlining is None or self.inlining.wal is not wal:
            return False
        self.inlining = None
        return True

    def _store_instead(self, sealed: SealedObject) -> None:
        self.inlining = None
        sealed.is_inlined, sealed.stored_at = False, -1.0
        self.objects.appendleft(sealed)
        self._store(sealed)
