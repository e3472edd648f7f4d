"""Finds runs that cannot be read, skips them, and brings them back: `tidegate topic repair`.

A run is skipped only if it was shown to the operator, and only after a proof (proof.py).  If runs
are merged or expire between the check and the operator's consent, their partitions are checked
again, and runs found then need a new proof.

Skipped runs are brought back only if they are read and verified twice, the second time over new
connections, just before they are proposed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.visitor import end_visit, keep_lease, register_visitor
from tidegate_coordination.rules.records.skips import Ending, EndSkips, Skip, SkipRuns
from tidegate_storage.objects.ownership import check_owner
from tidegate_storage.range_cache import RangeCache
from tidegate_storage.stores.object_store import ObjectStore

from ..fetch.log_reader import LogReader
from .kept import Ended, KeptRun, kept_runs, read_kept
from .looks import Looks, OnLook
from .proof import DEFAULT_PROOF_SECONDS, Refusal, refusal
from .readability import WORKERS, BadRun, Found, ReadabilityCheck
from .stretches import proposed, stretches
from .witness import Answers, Witness

# The limit of one proposal.
MAX_STRETCHES: Final = 200
# How often runs are checked again because they changed meanwhile.
ROUNDS: Final = 5


@dataclass(slots=True)
class Skipped:
    """The result of skipping.

    done: the skipped runs.  found: the result of the last repeated check; None if none was
    necessary.  left: runs that still cannot be read.  refusal: if a proof failed, why these runs
    were not skipped.
    """

    done: list[BadRun] = field(default_factory=list[BadRun])
    found: Found | None = None
    left: list[BadRun] = field(default_factory=list[BadRun])
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Demands:
    """The conditions under which an operator accepts a proof.

    seconds: the time from the first look to the last.  even_if_many: skip the runs even if many are
    lost.
    """

    seconds: float = DEFAULT_PROOF_SECONDS
    even_if_many: bool = False


def _ignore(number: int, pause: float) -> None:
    """Show nothing for a look."""


class Repair:
    """Checks and skips; see the module's head.

    Args:
      coordinator: its state must be caught up with the log; the caller runs its run().
      store: the cluster's store, as check_owner() has confirmed.
      fresh: opens the same store over new connections.
      demands: see Demands.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: ObjectStore,
        *,
        fresh: Callable[[], ObjectStore],
        demands: Demands,
        rng: Random,
        software_version: str,
    ) -> None:
        self._coordinator = coordinator
        self._demands = demands
        self._fresh = fresh
        answers = Answers()
        self._looks = Looks(coordinator, fresh, answers)
        store = Witness(store, answers)
        self._store = store
        self._rng = rng
        self._software_version = software_version
        # A cache of 0 bytes: reads from memory would prove nothing about the store.
        reader = LogReader(coordinator, store, RangeCache[object](0))
        self._check = ReadabilityCheck(coordinator, store, reader)

    async def look(
        self, partitions: Sequence[int], on_progress: Callable[[int], None] | None = None
    ) -> Found:
        """See ReadabilityCheck."""
        return await self._check.look(partitions, on_progress)

    async def prove(
        self, wanted: Sequence[BadRun], found: Found, on_look: OnLook = _ignore
    ) -> Refusal | None:
        """Look again at runs that a check found; return why they may not be skipped, or None.

        Raises:
          CoordinatorUnavailable, TimelineOver, StoreUnavailable: nothing is proven.
        """
        evidence = await self._looks.gather(wanted, found, self._demands.seconds, on_look)
        return refusal(evidence, even_if_many=self._demands.even_if_many)

    async def skip(
        self, wanted: Sequence[BadRun], partitions: Sequence[int], on_look: Callable[[Found], None]
    ) -> Skipped:
        """Skip the runs that a check of these partitions found, and that prove() confirmed as lost.

        on_look: called with the result each time the partitions are checked again.

        Raises:
          CoordinatorUnavailable, ProposalFailed, TimelineOver, StoreUnavailable: perhaps only some
            runs are skipped; check again.
        """
        skipped = Skipped()
        confirmed = wanted
        async with self._incarnation():
            for _ in range(ROUNDS):
                if not await self._skip_once(await self._still_bad(wanted), skipped):
                    skipped.left = []
                    break
                skipped.found = await self.look(partitions)
                on_look(skipped.found)
                skipped.left = skipped.found.unreadable
                wanted = _within(skipped.left, confirmed)
                if wanted:
                    skipped.refusal = await self.prove(wanted, skipped.found)
                if not wanted or skipped.refusal is not None:
                    break
        return skipped

    async def _still_bad(self, wanted: Sequence[BadRun]) -> list[BadRun]:
        """Check the runs again: objects may have been put back since the operator was asked."""
        still: dict[int, BadRun] = {}
        waiting = iter(enumerate(wanted))

        async def work() -> None:
            for at, each in waiting:
                if await self._check.is_unreadable(each):
                    still[at] = each

        async with trio.open_nursery() as nursery:
            for _ in range(WORKERS):
                nursery.start_soon(work)
        return [still[at] for at in sorted(still)]

    async def _skip_once(self, wanted: Sequence[BadRun], skipped: Skipped) -> bool:
        """Propose to skip the runs; return whether some were not skipped because they changed."""
        state = self._coordinator.state
        # Another cluster or timeline may own the store by now.
        await check_owner(self._store, state.cluster_id, timeline=state.timeline)
        has_changed = False
        waiting = stretches(wanted)
        for start in range(0, len(waiting), MAX_STRETCHES):
            some = waiting[start : start + MAX_STRETCHES]
            asked = tuple(proposed(each) for each in some)
            proposal = SkipRuns(self._coordinator.incarnation, asked)
            answers = await self._coordinator.propose(proposal)
            for stretch, answer in zip(some, answers, strict=True):
                if answer is Skip.SKIPPED:
                    skipped.done += stretch
                has_changed |= answer in (Skip.CHANGED, Skip.INLINED)
        return has_changed

    def kept(self, partitions: Sequence[int]) -> list[KeptRun]:
        """Return the skipped runs that are kept, without reading them."""
        return kept_runs(self._coordinator, self._check, partitions)

    async def read_kept(
        self, runs: Sequence[KeptRun], on_progress: Callable[[int], None] | None = None
    ) -> list[KeptRun]:
        """See kept.read_kept()."""
        return await read_kept(self._coordinator, self._check, runs, on_progress)

    async def bring_back(self, wanted: Sequence[KeptRun], *, even_if_compacted: bool) -> Ended:
        """Read kept runs once more, and bring back the runs that can be read.

        Raises:
          CoordinatorUnavailable, ProposalFailed, TimelineOver, StoreUnavailable: perhaps only some
            runs are back; check again.
        """
        store = self._fresh()
        try:
            reader = LogReader(self._coordinator, store, RangeCache[object](0))
            check = ReadabilityCheck(self._coordinator, store, reader)
            read = await read_kept(self._coordinator, check, wanted)
        finally:
            await store.aclose()
        ended = Ended(unreadable=[each for each in read if each.problem is not None])
        whole = [each for each in read if each.problem is None]
        await self._end(whole, ended, brings_back=True, even=even_if_compacted)
        return ended

    async def give_up(self, wanted: Sequence[KeptRun]) -> Ended:
        """Give kept runs up, so that they can never be brought back.

        Raises:
          CoordinatorUnavailable, ProposalFailed, TimelineOver, StoreUnavailable: as bring_back().
        """
        ended = Ended()
        await self._end(wanted, ended, brings_back=False)
        return ended

    async def _end(
        self, runs: Sequence[KeptRun], ended: Ended, *, brings_back: bool, even: bool = False
    ) -> None:
        state = self._coordinator.state
        waiting = stretches(runs)
        async with self._incarnation():
            await check_owner(self._store, state.cluster_id, timeline=state.timeline)
            for start in range(0, len(waiting), MAX_STRETCHES):
                some = waiting[start : start + MAX_STRETCHES]
                asked = tuple(proposed(each) for each in some)
                proposal = EndSkips(self._coordinator.incarnation, asked, brings_back, even)
                answers = await self._coordinator.propose(proposal)
                for stretch, answer in zip(some, answers, strict=True):
                    if answer is Ending.ENDED:
                        ended.done += stretch
                    ended.is_compacted |= answer is Ending.COMPACTED

    @asynccontextmanager
    async def _incarnation(self) -> AsyncGenerator[None, None]:
        """Keep this process registered as a visitor in the log while the caller works."""
        coordinator = self._coordinator
        await register_visitor(
            coordinator, "repair", rng=self._rng, software_version=self._software_version
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_lease, coordinator)
            yield
            nursery.cancel_scope.cancel()
        await end_visit(coordinator)


def _within(found: Sequence[BadRun], confirmed: Sequence[BadRun]) -> list[BadRun]:
    """Return the runs that are within a confirmed run."""
    by_partition: defaultdict[int, list[BadRun]] = defaultdict(list)
    for each in sorted(confirmed, key=_base_offset):
        by_partition[each.partition].append(each)
    within: list[BadRun] = []
    for each in found:
        rows = by_partition[each.partition]
        at = bisect_right(rows, each.row.base_offset, key=_base_offset) - 1
        if at >= 0 and each.row.next_offset <= rows[at].row.next_offset:
            within.append(each)
    return within


def _base_offset(each: BadRun) -> int:
    return each.row.base_offset
