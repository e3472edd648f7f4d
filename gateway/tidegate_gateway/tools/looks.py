"""Looks repeatedly at lost runs and at other runs, to gather the evidence that proof.py judges.

Each look opens the store again, so that it uses new connections.  The looks share their answers, so
a read that differs from an earlier look's read is noticed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_storage.objects.ownership import check_owner
from tidegate_storage.range_cache import RangeCache
from tidegate_storage.stores.object_store import ObjectStore

from ..fetch.log_reader import LogReader
from .proof import LOOKS, Evidence, Verdict, pauses, verdict
from .readability import WORKERS, BadRun, Found, Place, ReadabilityCheck, Sight
from .witness import Answers, Witness

OnLook = Callable[[int, float], None]
"""Called before each look with its number, from 1 on, and the seconds that it waits first."""
# How many other partitions a look reads one run of.
OTHER_PARTITIONS: Final = 32
MAX_PARTITIONS: Final = 1000


class Looks:
    """See the module's head.

    Args:
      fresh: opens the store over new connections; the looks close it.
      answers: the answers of earlier reads.
    """

    def __init__(
        self, coordinator: Coordinator, fresh: Callable[[], ObjectStore], answers: Answers
    ) -> None:
        self._coordinator = coordinator
        self._fresh = fresh
        self._answers = answers

    async def gather(
        self, wanted: Sequence[BadRun], found: Found, seconds: float, on_look: OnLook
    ) -> Evidence:
        """Look at the wanted runs, and at readable runs, over this number of seconds.

        Runs that are merged or expire meanwhile are left out, since the rules refuse to skip them.

        Raises:
          StoreUnavailable, StoreMisconfigured, TimelineOver: as check_owner().
        """
        bad = [(each.partition, each.row) for each in wanted]
        others = self._others(bad, found)
        sights: dict[Place, list[Sight]] = {place: [] for place in (*bad, *others)}
        for number, pause in enumerate(pauses(seconds), 1):
            on_look(number, pause)
            await trio.sleep(pause)
            await self._coordinator.catch_up()
            await self._look(sights)
        return Evidence(
            wanted=_verdicts(sights, bad),
            others=_verdicts(sights, others),
            contradictions=self._answers.contradictions + found.unsteady,
            objects=len(found.objects),
            lost_objects=len({row.object_number for _, row in bad}),
        )

    async def _look(self, sights: dict[Place, list[Sight]]) -> None:
        state = self._coordinator.state
        async with self._opened() as (store, check):
            await check_owner(store, state.cluster_id, timeline=state.timeline)
            waiting = iter(list(sights))

            async def work() -> None:
                for place in waiting:
                    sight = await check.see(place)
                    if sight is None:
                        del sights[place]
                    else:
                        sights[place].append(sight)

            async with trio.open_nursery() as nursery:
                for _ in range(WORKERS):
                    nursery.start_soon(work)

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[tuple[ObjectStore, ReadabilityCheck], None]:
        store = Witness(self._fresh(), self._answers)
        try:
            # A cache of 0 bytes: reads from memory would prove nothing about the store.
            reader = LogReader(self._coordinator, store, RangeCache[object](0))
            yield store, ReadabilityCheck(self._coordinator, store, reader)
        finally:
            await store.aclose()

    def _others(self, bad: Sequence[Place], found: Found) -> list[Place]:
        """Return the sampled readable runs, and the newest run of each of some other partitions."""
        partitions = islice(self._coordinator.state.partitions.values(), MAX_PARTITIONS)
        met = {number for number, _ in (*bad, *found.sample)}
        with_runs = (each for each in partitions if each.number not in met and len(each.runs))
        newest = [
            (each.number, each.runs[len(each.runs) - 1])
            for each in islice(with_runs, OTHER_PARTITIONS)
        ]
        return [*found.sample, *newest]


def _verdicts(sights: dict[Place, list[Sight]], places: Sequence[Place]) -> tuple[Verdict, ...]:
    return tuple(verdict(seen) for place in places if len(seen := sights.get(place, ())) == LOOKS)
