"""The promises of answers about links: one side is writable, and a switch loses no record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidegate_coordination.events import links as kev
from tidegate_coordination.events.cluster import LogStartsMoved
from tidegate_coordination.events.entries import AnyEvent, Entry
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome, Refusal
from tidegate_coordination.rules.records.mirrored_batches import (
    ABORT,
    COMMIT,
    TRANSACTIONAL,
    MirroredBatch,
)

from ..source import Source
from .configs import ConfigPromises
from .holes import HolePromises
from .lives import LifePromises
from .moment import Moment, Place
from .records import RecordPromises


class LinkPromises:
    """See the module's head.

    source: the cluster whose topics are mirrored.  linked: topics that are or were mirrored.
    moved: groups that moved here.
    """

    def __init__(
        self,
        moment: Moment,
        source: Source,
        records: RecordPromises,
        holes: HolePromises,
        lives: LifePromises,
        configs: ConfigPromises,
    ) -> None:
        self._moment: Final = moment
        self._source: Final = source
        self._records: Final = records
        self._holes: Final = holes
        self._lives: Final = lives
        self._configs: Final = configs
        self._awaited: Final[dict[int, set[int]]] = {}
        self._fenced: Final[dict[int, tuple[bytes, ...]]] = {}
        self._returning: Final[set[bytes]] = set()
        self._group_fences: Final[dict[int, set[int]]] = {}
        self.linked: Final[set[bytes]] = set()
        self.moved: Final[set[str]] = set()

    def before(self, entry: Entry) -> None:
        """Judge an entry before its fold, and record the gateways that fences wait for."""
        for event in entry.events:
            match event:
                case kev.ReverseReached():
                    for place in event.places:
                        self._reversed(place)
                case LogStartsMoved():
                    for number, offset in event.moves:
                        self._cut(number, offset)
                case _:
                    self._of_fence(event)

    def _of_fence(self, event: AnyEvent) -> None:
        match event:
            case kev.TopicsFenced():
                self._fence(event.fence, [each.topic_id for each in event.topics])
            case kev.ReturnFenced():
                self._fence(event.fence, event.topic_ids)
            case kev.FenceReached():
                self._awaited[event.fence].discard(event.incarnation)
            case kev.GroupsFenced():
                self._group_fences[event.fence] = set(self._brokers())
            case kev.GroupFenceReached():
                self._group_fences[event.fence].discard(event.incarnation)
            case _:
                pass

    def _fence(self, number: int, topic_ids: Iterable[bytes]) -> None:
        self._fenced[number] = tuple(topic_ids)
        self._awaited[number] = set(self._brokers())

    def _reversed(self, place: kev.ReversedPlace) -> None:
        partition = self._moment.truth.partitions[place.partition]
        theirs = self._source.topics[partition.topic_id].partitions[partition.index]
        if place.offset > theirs.next_offset:
            self._moment.complain(f"{place} is written back, and its source has {theirs}")

    def _cut(self, number: int, offset: int) -> None:
        """Complain if a log start passes records that are not yet written back to the source."""
        state = self._moment.truth
        partition = state.partitions[number]
        switched = state.switches.switched.get(partition.topic_id)
        reached = switched.reached if switched is not None else ()
        if partition.index < len(reached) and offset > reached[partition.index]:
            self._moment.complain(f"partition {number} is cut at {offset}: {switched}")

    def _brokers(self) -> list[int]:
        return [each.incarnation for each in self._moment.truth.gateways.brokers()]

    # -- mirrored records ---------------------------------------------------------------------

    def began(self, topic_id: bytes) -> None:
        """Record that a topic is mirrored."""
        self.linked.add(topic_id)
        self._records.mirrored.add(topic_id)

    def mirrored(self, batch: BatchFacts, mirrored: MirroredBatch, outcome: BatchOutcome) -> None:
        """Judge the answer to a mirrored batch."""
        place = batch.topic_id, batch.partition
        partition = self._records.partitions.get(place)
        if outcome.refusal is not None:
            self._misplaced(place, mirrored, outcome.refusal)
        elif partition is None or batch.topic_id not in self._records.mirrored:
            self._moment.complain(f"{mirrored} is written to {place}, which is not mirrored")
        else:
            at = partition.next_offset
            if at != mirrored.after or outcome.base_offset != mirrored.base_offset:
                self._moment.complain(f"{mirrored} is written to {place} at {outcome}, after {at}")
            partition.next_offset = mirrored.next_offset
            self._of_transaction(place, batch.producer_id, mirrored)

    def _of_transaction(self, place: Place, producer_id: int, mirrored: MirroredBatch) -> None:
        stable = self._records.stable
        if mirrored.kind == TRANSACTIONAL:
            stable.wrote(place, producer_id, mirrored.base_offset)
        elif mirrored.kind in (ABORT, COMMIT):
            committed = mirrored.kind == COMMIT
            stable.ended(place, producer_id, mirrored.base_offset, committed=committed)

    def _misplaced(self, place: Place, mirrored: MirroredBatch, refusal: Refusal) -> None:
        partition = self._records.partitions.get(place)
        if refusal is not Refusal.MISPLACED or partition is None:
            return
        if place[0] in self._records.mirrored and mirrored.after == partition.next_offset:
            known = self._moment.truth.topics.by_id.get(place[0])
            number = known.partition_numbers[place[1]] if known is not None else -1
            epoch = self._moment.truth.partitions[number].leader_epoch if number >= 0 else 0
            if mirrored.leader_epoch >= epoch:
                self._moment.complain(f"{mirrored} follows {place}, and is refused")

    def placed(self, place: Place, after: int, log_start: int, next_offset: int) -> None:
        """Judge a move of the bounds of a mirrored partition that was accepted."""
        partition = self._records.partitions.get(place)
        if partition is None or place[0] not in self._records.mirrored:
            self._moment.complain(f"{place} is placed, and is not mirrored")
            return
        if after not in (-1, partition.next_offset):
            self._moment.complain(f"{place} is placed after {after}, {partition.next_offset}")
        end = partition.next_offset if after == -1 else next_offset
        if end > partition.next_offset:
            self._holes.left_out(place, partition.next_offset, end)
            is_emptied = max(log_start, partition.floor) >= partition.next_offset
            self._records.stable.left_out(place, end, is_emptied=is_emptied)
        partition.next_offset = end
        known = self._moment.truth.topics.by_id.get(place[0])
        if partition.is_holed and known is not None:  # a skip may have moved its start already
            log_start = self._moment.truth.partitions[known.partition_numbers[place[1]]].floor
        partition.floor = max(partition.floor, log_start)

    # -- sides --------------------------------------------------------------------------------

    def switched(self, number: int) -> None:
        """Judge a switch: all records must be here, the source fenced, and no write unanswered."""
        self._reached(number)
        for topic_id in self._fenced.pop(number, ()):
            self._compare(topic_id)
            self._records.mirrored.discard(topic_id)
            self._configs.begin(topic_id)

    def return_fenced(self, number: int) -> None:
        """Record that topics take no writes here any more."""
        self._returning.update(self._fenced[number])
        self._records.mirrored.update(self._fenced[number])
        for topic_id in self._fenced[number]:
            self._configs.forget(topic_id)

    def returned(self, number: int) -> None:
        """Judge a return: all records are at the source, which takes writes again."""
        self._reached(number)
        for topic_id in self._fenced.pop(number, ()):
            self._compare(topic_id)
            self._returning.discard(topic_id)
            self._source.topics[topic_id].is_fenced = False

    def lifted(self, number: int) -> None:
        """Record that a fence is lifted: its topics stay where they were."""
        self._stay(self._fenced.get(number, ()))

    def _stay(self, topic_ids: Iterable[bytes]) -> None:
        back = self._returning.intersection(topic_ids)
        self._returning.difference_update(back)
        self._records.mirrored.difference_update(back)
        for topic_id in back:
            self._configs.begin(topic_id)

    def held(self) -> None:
        """Record a restore: all fences are lifted."""
        self._stay(list(self._returning))

    def _reached(self, number: int) -> None:
        late = [each for each in self._awaited[number] if self._lives.is_live(each)]
        if late:
            self._moment.complain(f"fence {number} ends, and {late} may still have writes")

    def _compare(self, topic_id: bytes) -> None:
        topic = self._source.topics[topic_id]
        if not topic.is_fenced:
            self._moment.complain(f"{topic.name} changes sides, and its source takes writes")
        for index, theirs in enumerate(topic.partitions):
            own = self._records.partitions.get((topic_id, index))
            if own is None or own.next_offset != theirs.next_offset:
                text = f"{topic.name}-{index} changes sides at {own}, and its source is {theirs}"
                self._moment.complain(text)

    def finished(self, topic_id: bytes) -> None:
        """Record that a topic has no source any more."""
        if topic_id in self._records.mirrored:
            self._moment.complain(f"{topic_id.hex()} is mirrored, and its source is forgotten")
        self._source.topics.pop(topic_id)

    def deleted(self, topic_ids: Iterable[bytes]) -> None:
        """Record that copies are gone with their link."""
        for topic_id in topic_ids:
            self.linked.discard(topic_id)
            self._records.mirrored.discard(topic_id)

    # -- groups -------------------------------------------------------------------------------

    def groups_moved(self, number: int, groups: Iterable[str]) -> None:
        """Judge a move of groups."""
        late = [each for each in self._group_fences[number] if self._lives.is_live(each)]
        if late:
            self._moment.complain(f"groups move, and {late} may still have commits")
        self.moved.update(groups)

    def check(self) -> None:
        """Compare the sides of all topics."""
        for topic in self._moment.truth.topics.by_id.values():
            if bool(topic.link) != (topic.topic_id in self._records.mirrored):
                self._moment.complain(f"{topic.name} is on the wrong side of its link")
