"""Writes the records that switched topics got since the switch back to their source.

Gateways divide the partitions in the same way as those to mirror.  The source assigns offsets, so
two gateways must not write to a partition at once: a gateway that takes a partition over first
waits for the time of a lease (takeovers.py).  The gateway writes its progress to the log now and
then.  If another gateway takes over, it compares the batches after this offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import structlog
import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.migration.returns import EndReverse, NoteReversed
from tidegate_coordination.rules.written_back import reached_of
from tidegate_coordination.state.changes import PARTITIONS
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.topics import Topic

from ...fetch.log_reader import LogReader
from ..assignment import candidates, reversed_by
from .batch_sender import BatchSender
from .batches import Diverged
from .partition import PartitionReverse, ReverseParts
from .source_tail import MAY_PASS
from .takeovers import Takeovers

_log = structlog.get_logger("tidegate.links")

LOOK_SECONDS: Final = 0.1
AGAIN_SECONDS: Final = 1.0
NOTE_SECONDS: Final = 1.0
WAKE_SECONDS: Final = 5.0
TAKES_OVER: Final = (
    "another gateway may still write it back: this one waits {:.0f} s, until that has stopped"
)
COMPARED: Final = 16
"""Partitions that are compared with the source at once."""


class Reversing:
    """See the module's head.  partitions: those that this gateway writes back, by number."""

    def __init__(
        self, coordinator: Coordinator, reader: LogReader, link: Link, cluster: ClassicCluster
    ) -> None:
        self.partitions: dict[int, PartitionReverse] = {}
        self._coordinator = coordinator
        self._state: ClusterState = coordinator.state
        self._link = link
        self._sender = BatchSender(cluster, self._may_write)
        self._parts = ReverseParts(
            coordinator.state,
            reader,
            link,
            cluster,
            self._sender,
            trio.CapacityLimiter(COMPARED),
            coordinator.catch_up,
            self._on_progress,
        )
        self._scopes: dict[int, trio.CancelScope] = {}
        self._takeovers = Takeovers()
        self._assigned: tuple[object, ...] = ()
        self._progress = trio.Event()

    def _wake(self, touched: set[int]) -> None:
        """Note that partitions may have grown."""
        for number in touched & self.partitions.keys():
            self.partitions[number].wake()

    def _on_progress(self) -> None:
        self._progress.set()

    async def run(self) -> None:
        """Write back, until cancelled."""
        with self._coordinator.listening(self._wake, PARTITIONS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._sender.run)
                nursery.start_soon(self._note)
                while True:
                    self._assign(nursery)
                    await trio.sleep(LOOK_SECONDS)

    def _topic_ids(self) -> set[bytes]:
        switched = self._state.switches.switched.items()
        return {key for key, each in switched if each.link == self._link.name and each.reached}

    def _reversed_ids(self) -> Iterator[bytes]:
        switched = self._state.switches.switched.items()
        return (key for key, each in switched if each.link == self._link.name and each.has_reversed)

    def _assign(self, nursery: trio.Nursery) -> None:
        topic_ids, gateways = self._topic_ids(), candidates(self._state)
        # While this gateway may not write, it owns no partitions, so queued batches are dropped.
        may_write, now = self._may_write(), trio.current_time()
        self._takeovers.look(gateways, self._reversed_ids(), now, is_live=may_write)
        assigned = (gateways, frozenset(topic_ids), may_write)
        if assigned == self._assigned:
            return
        self._assigned = assigned
        me = self._coordinator.incarnation
        mine = reversed_by(self._state, topic_ids, me, gateways) if may_write else {}
        for number in self.partitions.keys() - mine.keys():
            del self.partitions[number]
            self._scopes.pop(number).cancel()
        for number, (topic, index) in mine.items():
            if number not in self.partitions:
                lease_seconds = self._state.gateways.lease_ms / 1000
                pause = self._takeovers.pause_seconds(topic.topic_id, now, lease_seconds)
                self._begin(nursery, topic, index, pause)

    def _begin(self, nursery: trio.Nursery, topic: Topic, index: int, pause: float) -> None:
        partition = PartitionReverse(self._parts, topic, index)
        self.partitions[partition.number] = partition
        scope = self._scopes[partition.number] = trio.CancelScope()
        nursery.start_soon(self._reverse, partition, scope, pause)

    def _may_write(self) -> bool:
        coordinator = self._coordinator
        is_live = self._state.gateways.is_live(coordinator.incarnation)
        return is_live and not coordinator.is_cut_off

    async def _reverse(
        self, partition: PartitionReverse, scope: trio.CancelScope, pause: float
    ) -> None:
        with scope:
            if pause > 0:
                partition.problem = TAKES_OVER.format(pause)
                await trio.sleep(pause)
            try:
                while True:
                    await self._go_on(partition)
            except Diverged as error:
                await self._give_up(partition, str(error))

    async def _go_on(self, partition: PartitionReverse) -> None:
        """Write back until an error that may pass."""
        try:
            await partition.find_position()
            while True:
                await partition.send_all()
                with trio.move_on_after(WAKE_SECONDS):
                    await partition.wait_for_more()
        except MAY_PASS as error:
            partition.problem = str(error)
            await trio.sleep(AGAIN_SECONDS)

    @property
    def _is_hurried(self) -> bool:
        return any(each.is_back for each in self._state.switches.of_link(self._link.name))

    async def _give_up(self, partition: PartitionReverse, text: str) -> None:
        """Stop writing the topic back.  If it has a fence, this waits until the fence is lifted."""
        topic = partition.topic
        text = f"{topic.name}-{partition.index}: {text}"
        _log.error("a topic cannot go back to its source", link=self._link.name, reason=text)
        partition.problem = text
        while topic.topic_id in self._topic_ids():
            with suppress(CoordinatorUnavailable, ProposalFailed):
                await self._coordinator.propose(EndReverse(self._link.name, (topic.name,), text))
            await trio.sleep(AGAIN_SECONDS)

    async def _note(self) -> None:
        """Write the progress of the partitions to the log; forever."""
        while True:
            await self._progress.wait()
            if not self._is_hurried:
                with trio.move_on_after(NOTE_SECONDS):
                    await self._hurry()
            self._progress = trio.Event()
            places = tuple(self._places())
            if places:
                try:
                    await self._coordinator.propose(NoteReversed(places))
                except (CoordinatorUnavailable, ProposalFailed):
                    self._progress.set()
                    await trio.sleep(LOOK_SECONDS)

    async def _hurry(self) -> None:
        while not self._is_hurried:  # noqa: ASYNC110 - the log brings it
            await trio.sleep(LOOK_SECONDS)

    def _places(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for number, each in self.partitions.items():
            partition = self._state.partitions.get(number)
            reached = reached_of(self._state, partition) if partition is not None else None
            if reached is not None and each.position > reached:
                found.append((number, each.position))
        return found
