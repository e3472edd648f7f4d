"""The metadata of a whole cluster in one thread: real rules and events, virtual time, no bytes.

Gateways flush, a pipeline merges, a housekeeper expires, collects and takes snapshots.  The real
code decides, encodes, decodes and folds their proposals.  A merge takes no time: its segment's row
follows from its sources.  Of log and snapshots only sizes are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final, TypeVar

from tidegate_coordination.events.cluster import RUN_SEGMENT, Segment
from tidegate_coordination.events.entries import decode_entry, encode_entry, encode_events
from tidegate_coordination.rules.cluster_settings import ClusterSettings, Own
from tidegate_coordination.rules.gateways import Register, Renew
from tidegate_coordination.rules.housekeeping import (
    ForgetObjects,
    MoveLogStarts,
    collectable,
    plan_retention,
)
from tidegate_coordination.rules.proposal import Proposal, View
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.segments import Publication, PublishSegments, SegmentUnit
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import CreateTopics, NewTopic
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_gateway.parts.keepers import housekeeper_settings
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_pipeline.driver import PARENTS_PER_PROPOSAL, UNITS_PER_PROPOSAL
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_pipeline.planning.pauses import Stretch
from tidegate_pipeline.planning.plan import Plan, PlannedUnit, UnderWay
from tidegate_storage.objects.segment_format import CHUNK_BYTES, HEADER_BYTES

from ..errors import BenchError

Answer = TypeVar("Answer")

START_MS: Final = 1_700_000_000_000
TOPIC_PARTITIONS: Final = 10_000
FLUSH_MS: Final = 250
ROUND_MS: Final = 30_000  # of the pipeline: planning looks at every partition
GRACE_MS: Final = 60_000
COPY_MS: Final = 60_000  # between two copies of the log
_INDEX_BYTES: Final = 76  # without its chunks
_CHUNK_BYTES: Final = 56
_NONCE: Final = bytes(12)


@dataclass(frozen=True, slots=True)
class Load:
    """Four times a second each gateway commits an object with batches of `slices` partitions."""

    partitions: int
    gateways: int
    slices: int
    retention_ms: int
    slice_bytes: int = 16_384
    records: int = 16


@dataclass(slots=True)
class LogSizes:
    """A log that keeps the sizes of its entries.  snapshot_*: of the newest one."""

    kept: deque[int] = field(default_factory=deque[int])
    size_bytes: int = 0
    written_bytes: int = 0
    position: int = 0
    snapshot_position: int = 0
    snapshot_bytes: int = 0

    def append(self, size_bytes: int) -> int:
        """Append an entry; return its position."""
        self.kept.append(size_bytes)
        self.size_bytes += size_bytes
        self.written_bytes += size_bytes
        self.position += 1
        return self.position

    def trim(self, keep_entries: int) -> None:
        """Drop the entries that the snapshot covers, without the last few."""
        kept = self.position - self.snapshot_position + keep_entries
        while len(self.kept) > kept:
            self.size_bytes -= self.kept.popleft()


@dataclass(slots=True)
class Done:
    """The counts so far."""

    commits: int = 0
    slices: int = 0
    merges: int = 0
    expired: int = 0
    collected: int = 0
    snapshots: int = 0


# Housekeeping and snapshots at twice the default rates, so that short runs show their work, too.
_OFTEN: Final = {"housekeeping.interval.ms": "30000", "snapshot.interval.entries": "5000"}


class VirtualCluster:
    """See the module's head.  It is empty until begin()."""

    def __init__(self, load: Load, rng: Random) -> None:
        self.load = load
        self.state = ClusterState()
        self.log = LogSizes()
        self.done = Done()
        self.now_ms = START_MS
        self._rng = rng
        self._house = housekeeper_settings(BrokerSettings(_OFTEN))
        self._merging = MergeSettings()
        self._settings = ClusterSettings(self.state, Own(1, {}))
        self._unit_numbers = count(1)
        self._places: list[tuple[bytes, int]] = []
        self._gateways: list[int] = []
        self._driver = 0
        self._counters: dict[int, int] = {}
        self._resume_at = 0
        self._copied_ms = START_MS

    def begin(self) -> None:
        """Register all gateways and create the topics."""
        self._gateways = [self._registered(number) for number in range(1, self.load.gateways + 1)]
        self._driver = self._registered(-2)
        self._counters = dict.fromkeys(self._gateways, 0)
        for first in range(0, self.load.partitions, TOPIC_PARTITIONS):
            size = min(TOPIC_PARTITIONS, self.load.partitions - first)
            configs = {"retention.ms": str(self.load.retention_ms)}
            topic_id = (first + 1).to_bytes(16, "big")
            topic = NewTopic(topic_id, f"topic-{first}", size, 1, configs=configs)
            _ = self._propose(self._gateways[0], CreateTopics([topic]))
            self._places += [(topic_id, index) for index in range(size)]

    def _registered(self, node_id: int) -> int:
        answer = self._propose(0, Register(node_id, f"key {node_id}", "zone", (), "0", "c" * 22))
        if not isinstance(answer, int):
            raise BenchError(f"node {node_id} was not registered: {answer}")
        return answer

    def run(self, virtual_ms: int) -> None:
        """Continue for that much virtual time."""
        end_ms = self.now_ms + virtual_ms
        while self.now_ms < end_ms:
            self.now_ms += FLUSH_MS
            for incarnation in self._gateways:
                self._flush(incarnation)
            if self.now_ms % COPY_MS < FLUSH_MS:
                self._copied_ms = self.state.log_time_ms
            if self.now_ms % ROUND_MS < FLUSH_MS:
                self._merge()
            if self.now_ms % int(self._house.interval_seconds * 1000) < FLUSH_MS:
                self._keep_house()
                self._take_snapshot()

    def _propose(self, writer: int, proposal: Proposal[Answer]) -> Answer:
        state = self.state
        log_time_ms = state.log_time_after(writer, self.now_ms)
        decided = proposal.decide(View(state, writer, self.now_ms, log_time_ms))
        if decided.events:
            uptime_ms = self.now_ms - START_MS
            events = encode_events(decided.events)
            payload = encode_entry(_NONCE, writer, self.now_ms, events, uptime_ms)
            position = self.log.append(len(payload))
            state.apply(position, decode_entry(payload, position))
            state.touched.clear()
        return decided.answer

    def _flush(self, incarnation: int) -> None:
        load, counter = self.load, self._counters[incarnation]
        drawn = sorted(self._rng.sample(range(load.partitions), load.slices))
        size_bytes, now_ms = load.slice_bytes, self.now_ms
        batches = [
            BatchFacts(
                *self._places[number],
                place * size_bytes,
                size_bytes,
                load.records,
                now_ms,
                counter,
                -1,
                -1,
                -1,
                -1,
            )
            for place, number in enumerate(drawn)
        ]
        name = WalName(incarnation, counter)
        proposal = CommitWal(name, size_bytes * len(drawn), batches)
        _ = self._propose(incarnation, proposal)
        self._counters[incarnation] = counter + 1
        self.done.commits += 1
        self.done.slices += len(drawn)

    def _merge(self) -> None:
        """Run rounds of the pipeline while they are full."""
        _ = self._propose(self._driver, Renew())
        is_full = True
        while is_full:
            plan = Plan(
                self.state,
                self._merging,
                settings_of=self._settings.of,
                is_paused=_never_paused,
                next_number=self._unit_numbers.__next__,
                under_way=UnderWay(),
            )
            is_full = self._plan(plan)
            self._publish(plan.units)

    def _plan(self, plan: Plan) -> bool:
        """Plan for all partitions, from the one that filled the last round on.

        Return whether this round is full.
        """
        start = self._resume_at
        for step in range(self.load.partitions):
            number = (start + step) % self.load.partitions
            if plan.is_full:
                self._resume_at = number
                return True
            _ = plan.add_merges(number)
        self._resume_at = 0
        return False

    def _publish(self, units: Sequence[PlannedUnit]) -> None:
        waiting: list[SegmentUnit] = []
        parents = 0
        for each in units:
            waiting.append(_merged(each, self.load))
            parents += len(each.parents)
            if len(waiting) >= UNITS_PER_PROPOSAL or parents >= PARENTS_PER_PROPOSAL:
                self._publish_some(waiting)
                waiting, parents = [], 0
        if waiting:
            self._publish_some(waiting)

    def _publish_some(self, units: Sequence[SegmentUnit]) -> None:
        answers = self._propose(self._driver, PublishSegments(self._driver, tuple(units)))
        if set(answers) != {Publication.PUBLISHED}:
            raise BenchError(f"segments were refused: {set(answers)}")
        self.done.merges += len(units)

    def _keep_house(self) -> None:
        state, writer = self.state, self._gateways[0]
        while moves := plan_retention(state, self._settings.of):
            self.done.expired += len(moves)
            self._propose(writer, MoveLogStarts(tuple(moves)))
        while numbers := collectable(state, GRACE_MS, self._copied_ms):
            self.done.collected += len(numbers)
            self._propose(writer, ForgetObjects(tuple(numbers)))

    def _take_snapshot(self) -> None:
        log, house = self.log, self._house
        if log.position - log.snapshot_position < house.snapshot_entries:
            return
        with self.state.frozen() as frozen:
            log.snapshot_bytes = sum(len(piece) for piece in frozen.pieces())
        log.snapshot_position = log.position
        log.trim(house.kept_entries)
        self.done.snapshots += 1


def _merged(planned: PlannedUnit, load: Load) -> SegmentUnit:
    """Return the segment that a task would have made of a unit."""
    unit = planned.unit
    length = unit.size_bytes
    index_bytes = _INDEX_BYTES + _CHUNK_BYTES * -(-length // CHUNK_BYTES)
    segment = Segment(
        unit.number & 0xFFFFFFFF,
        HEADER_BYTES + length + index_bytes,
        HEADER_BYTES + length,
        length,
        unit.base_offset,
        unit.next_offset,
        max(row.max_timestamp for row in planned.parents),
        unit.number & 0xFFFFFFFF,
    )
    records = unit.next_offset - unit.base_offset
    return SegmentUnit(planned.partition, planned.parents, (segment,), records, unit.number)


def _never_paused(_stretch: Stretch) -> bool:
    return False


def live_rows(state: ClusterState) -> tuple[int, int]:
    """Return the live runs of WAL objects and the live segments of all partitions."""
    runs = segments = 0
    for partition in state.partitions.values():
        for at in range(len(partition.runs)):
            is_segment = bool(partition.runs[at].flags & RUN_SEGMENT)
            segments += is_segment
            runs += not is_segment
    return runs, segments
