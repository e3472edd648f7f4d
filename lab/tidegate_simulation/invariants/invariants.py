"""Invariants after every entry of the metadata log, whatever clients see.

StateWatch folds each entry into a replica of its own at the moment it is appended, and checks the
invariants 1 to 8 of the cluster state (docs/architecture.md, "What stays true"); 1 and 2 are in
tiling_checks.py, 5 in replays.py, 6 in sequence_checks.py; formats in format_checks.py.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Final

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events import links as kev
from tidegate_coordination.events import security as sev
from tidegate_coordination.events.entries import AnyEvent, Entry, authored, decode_entry
from tidegate_coordination.events.inlined import InlineMoved
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import ObjectName, SegmentName, WalName
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.writers.claims import Claim

from ..checks.late_checks import LatenessWatch
from ..checks.segment_checks import BodyOf, NotWhole, check_cleaned, check_published
from ..checks.sequence_checks import SequenceWatch
from ..plans.losses import Hurt
from ..plans.move_plan import FIRST_LOG
from .deletion_checks import DeletionWatch, live_objects, used_objects
from .format_checks import FormatWatch
from .group_checks import GroupWatch
from .inline_checks import InlineWatch
from .lease_checks import LeaseWatch
from .mirror_checks import MirrorWatch
from .offsets_checks import OffsetsWatch
from .replays import Replays
from .rights_checks import check_right
from .sealing_checks import SealingWatch
from .settings_checks import SettingsWatch
from .tiling_checks import TilingWatch
from .transactions.checks import TransactionWatch

Complain = Callable[[str, str], None]

# The watch checks whole partitions where this divides the position.
_WHOLE_ENTRIES = 25


class StateWatch:
    """The independent replica.

    Args:
      body_of: returns the object of a key, without waiting.
      complain: called with the kind and the text of a violation.
      deletions: called with each entry.
      hurt: knows the lost objects and their former bodies.
      on_lost, on_back: called with a partition and a damaged range that a repair declares lost, or
        brings back.
      on_published: called with the number of units of each entry that publishes some.
      on_moved: called with the log that takes entries from now on.
      on_cleaned: called for each round of compaction.
      settings, groups: called with each removal.  leases: called with each entry.
      id_retention_ms: for how long an idle transactional id is kept.
      count: called with the kind of each end of a transaction.
    """

    def __init__(
        self,
        body_of: BodyOf,
        complain: Complain,
        deletions: DeletionWatch,
        on_published: Callable[[int], None],
        on_cleaned: Callable[[], None],
        *,
        hurt: Hurt,
        on_lost: Callable[[Partition, int, int], None],
        on_back: Callable[[Partition, int, int], None],
        on_moved: Callable[[str], None],
        settings: SettingsWatch,
        groups: GroupWatch,
        leases: LeaseWatch,
        id_retention_ms: int = 0,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.state = ClusterState()
        self.inlined: Final = InlineWatch(self.state, body_of, complain, count)
        body_of = self.inlined.body_of
        self.payloads: list[bytes] = []
        self.replays: Final = Replays(self.state, self.payloads, self._broken)
        self.sequences: Final = SequenceWatch(self._broken)
        self.lateness: Final = LatenessWatch(self.state, complain)
        self.transactions: Final = TransactionWatch(
            self.state, self._broken, body_of, id_retention_ms=id_retention_ms, count=count
        )
        self.mirrors: Final = MirrorWatch(self.state, complain, body_of)
        self.formats: Final = FormatWatch(self.state, complain)
        self.sealing: Final = SealingWatch(complain)
        self.offsets: Final = OffsetsWatch(self.state, self._broken, complain)
        self._tiling: Final = TilingWatch(
            self.state, self._broken, complain, hurt=hurt, on_lost=on_lost, on_back=on_back
        )
        self._body_of = body_of
        self._complain = complain
        self._deletions = deletions
        self._on_published = on_published
        self._on_cleaned = on_cleaned
        self._hurt = hurt
        self._on_moved = on_moved
        self._settings = settings
        self._groups = groups
        self._leases = leases
        self._now_ms = 0  # log time of the present entry
        self._published: set[SegmentName] = set()
        # By earlier events of the entry: ended incarnations, claims, and groups that moved here.
        self._ended: set[int] = set()
        self._claimed: dict[str, Claim] = {}
        self._moved: set[str] = set()
        self._settled: dict[WalName, str] = {}
        self._is_broken = False

    # -- entries ----------------------------------------------------------------------------------

    def appended(self, url: str, position: int, payload: bytes) -> None:
        """Check that all logs share one history: an append is a copy, or is new at the current
        log's end.
        """
        if position <= len(self.payloads):
            if self.payloads[position - 1] != payload:
                self._complain("history split", f"{url} has another entry {position}")
            return
        moves = self.state.log_moves
        if url != (moves.last.url or FIRST_LOG):
            text = f"entry {position} goes to {url}, and the end is {moves.last.url or FIRST_LOG}"
            self._complain("history split", text)
            return
        self.entry(position, payload)
        if moves.sealed_at == position:
            self._on_moved(moves.last.url)

    def saved(self, url: str, encoded: bytes) -> None:
        """Check a snapshot in a former or current log against the state at its position."""
        state = ClusterState.decode(encoded)
        state.log_moves.is_copy = False
        self.replays.compare(f"the snapshot in {url}", state)

    def entry(self, position: int, payload: bytes) -> None:
        """Fold an entry that was just appended, and check all invariants."""
        self.payloads.append(payload)
        if self._is_broken:
            return
        entry = decode_entry(payload, position)
        self.formats.before(position, entry)
        self._before(entry)
        try:
            self.state.apply(position, entry)
        except (StateBroken, KeyError) as error:
            self._is_broken = True
            self._complain("state broken", f"entry {position}: {error!r}")
            return
        self._after(position, entry)

    def _before(self, entry: Entry) -> None:
        """Check the events of an entry against the state before it."""
        self._ended.clear()
        self._claimed.clear()
        self._moved.clear()
        self._now_ms = self.state.log_time_after(entry.writer, entry.clock_ms)
        if entry.writer and not self._lives(entry.writer):
            self._broken(8, f"an entry of incarnation {entry.writer}, which ended")
        self.transactions.begin(self.state.position + 1, self._now_ms)
        self._leases.before(self.state, entry)
        self.inlined.before(entry)
        for author, event in authored(entry):
            self.transactions.before(event)
            self.mirrors.before(event)
            self.sequences.before(event, self._now_ms)
            if isinstance(event, kev.MirrorsPlaced):
                self._tiling.placed(event)
            self._event(author, event)
            if isinstance(event, ev.GatewayExpired):
                self._ended.add(event.incarnation)
            elif isinstance(event, ev.GatewayRegistered):
                self._ended.add(event.supersedes)

    def _event(self, author: int, event: AnyEvent) -> None:
        self._settings.of_life(self.state, event)
        match event:
            case ev.Proposed() if not self._lives(event.incarnation):
                self._broken(8, f"a proposal of incarnation {event.incarnation}, which ended")
            case ev.WalCommitted():
                self._commit(event)
            case InlineMoved():
                self._settle(WalName(event.incarnation, event.counter), "committed")
            case ev.WalAbandoned():
                self._settle(WalName(event.incarnation, event.counter), "abandoned")
            case ev.LogStartsMoved():
                self._settings.cut(self.state, event)
                self._tiling.cut(event)
            case ev.ObjectsCollected():
                self._collect(event)
            case ev.SegmentsPublished():
                self._publish(event)
            case ev.RunsSkipped() | ev.SkipsEnded():
                self._skip(event)
            case _:
                self._of_rights(author, event)

    def _of_rights(self, author: int, event: AnyEvent) -> None:
        match event:
            case ev.ConfigsSet():
                check_right(self.state, event, self._complain)
            case sev.ScramCredentialSet() | sev.ScramCredentialSealed():
                self.sealing.before(self.state, author, event)
            case _:
                self._of_groups(author, event)

    def _of_groups(self, author: int, event: AnyEvent) -> None:
        match event:
            case ev.ClaimTaken():
                self._claimed[event.name] = Claim(event.incarnation, event.epoch)
            case kev.GroupsMoved() if event.fence in self.state.link_groups.fences:
                self._moved.update(self.state.link_groups.fences[event.fence].groups)
            case gev.GroupChanged() | gev.OffsetsCommitted():
                self._group(author, event)
                if isinstance(event, gev.GroupChanged):
                    self._groups.changes(event)
            case _:  # GroupWatch checks deletions of groups and of their offsets
                self._groups.before(self.state, event, self._now_ms)

    def _lives(self, incarnation: int) -> bool:
        """Return whether an incarnation is live before the present event."""
        return incarnation not in self._ended and self.state.gateways.is_live(incarnation)

    def _after(self, position: int, entry: Entry) -> None:
        self.formats.after_entry()
        if self._tiling.after_skips():
            self._dead()
        for number in sorted(self.state.touched):
            partition = self.state.partitions.get(number)
            if partition is None:
                continue
            if not self.offsets.holds(number):
                self._tiling.check(partition, whole=position % _WHOLE_ENTRIES == 0)
            self._tiling.rising(partition)
        self.offsets.after_entry(sorted(self.state.touched))
        self.state.touched.clear()
        self._after_segments(entry)
        self.mirrors.after()
        self.transactions.after(whole=position % _WHOLE_ENTRIES == 0)
        self._deletions.after_entry(self.state)
        self.lateness.after_entry(entry)
        self.replays.after_entry()

    def _broken(self, number: int, text: str) -> None:
        self._complain(f"invariant {number}", f"after entry {self.state.position}: {text}")

    # -- invariants, by their numbers -------------------------------------------------------------

    def _commit(self, event: ev.WalCommitted) -> None:
        """Check 3, 6 and 8, and that every committed object is stored."""
        name = WalName(event.incarnation, event.counter)
        if not self._lives(event.incarnation):
            self._broken(8, f"{name} committed, but its incarnation ended")
            return
        self._settle(name, "committed")
        if event.runs and self._body_of(self._key(name)) is None:
            self._complain("not stored", f"{name} was committed before it was stored")
        mirrored = {each.partition for each in event.runs if each.flags & ev.RUN_FINAL}
        for batch in event.producers:
            if batch.partition in mirrored:  # the source checks sequences of mirrored batches
                self.sequences.had_written(batch)
            else:
                self.sequences.committed(batch)

    def _settle(self, name: WalName, status: str) -> None:
        """3: a WAL id is settled once."""
        before = self._settled.setdefault(name, status)
        if before != status or self.state.objects.wal_status(name).value != "unknown":
            self._broken(3, f"{name} was {before} and becomes {status}")

    def _collect(self, event: ev.ObjectsCollected) -> None:
        """4: an object is collected when no run is live in it, or kept after a skip."""
        used = used_objects(self.state)
        for number in event.numbers:
            if number in used:
                self._broken(4, f"object {number} was collected while runs in it are needed")

    def _publish(self, event: ev.SegmentsPublished) -> None:
        """Check 8, that segments equal their parents, and that each is published once."""
        if not self._lives(event.incarnation):
            self._broken(8, f"segments of incarnation {event.incarnation}, which ended")
            return
        for one, other in combinations(event.partitions, 2):
            if one.partition == other.partition and _overlap(one, other):
                self._broken(1, f"{one} and {other} in one entry")
        self._on_published(len(event.partitions))
        self._settings.compacted(self.state, event)
        for each in event.partitions:
            try:
                check_published(self.state, event.incarnation, each, self._hurt.was)
            except NotWhole as error:
                self._complain("segment", f"partition {each.partition}: {error}")
            self._publish_once(event.incarnation, each)

    def _publish_once(self, incarnation: int, each: ev.SegmentsOfPartition) -> None:
        partition = self.state.partitions.get(each.partition)
        if partition is None:
            return
        for segment in each.segments:
            name = SegmentName(
                incarnation,
                segment.attempt,
                partition.topic_id,
                partition.index,
                segment.base_offset,
            )
            if name in self._published:
                self._broken(3, f"{name} is published again")
            self._published.add(name)

    def _skip(self, event: ev.RunsSkipped | ev.SkipsEnded) -> None:
        """Check 8, and that only damaged runs are skipped, and only whole ones come back."""
        if not self._lives(event.incarnation):
            self._broken(8, f"runs skipped by incarnation {event.incarnation}, which ended")
        if isinstance(event, ev.SkipsEnded):
            self._tiling.ended(event)
            return
        for each in event.stretches:
            self._tiling.skipped(each)

    def _after_segments(self, entry: Entry) -> None:
        """Check 1 for whole partitions, and 4 by the counts of the state."""
        for event in entry.events:
            if isinstance(event, ev.PartitionsCleaned):
                self._cleaned(event)
        numbers = [
            each.partition
            for event in entry.events
            if isinstance(event, ev.SegmentsPublished)
            for each in event.partitions
        ]
        for number in numbers:
            partition = self.state.partitions.get(number)
            if partition is not None:
                self._tiling.check(partition, whole=True)
        if numbers:
            self._dead()

    def _cleaned(self, event: ev.PartitionsCleaned) -> None:
        """Check that a round of compaction leaves each key once."""
        self._on_cleaned()
        for each in event.partitions:
            try:
                check_cleaned(self.state, each, self._body_of)
            except NotWhole as error:
                self._complain("compaction", f"partition {each.partition}: {error}")

    def _dead(self) -> None:
        """4: an object is dead if, and only if, it holds no live run and no kept run."""
        objects, used = self.state.objects, used_objects(self.state)
        wrong = sorted(used & objects.dead.keys())
        if wrong or len(objects) != len(used) + len(objects.dead):
            text = f"of {len(objects)} objects {len(used)} are used, {len(objects.dead)} dead"
            self._broken(4, f"{text}; both: {wrong}")

    def _group(self, writer: int, event: gev.GroupChanged | gev.OffsetsCommitted) -> None:
        """7: a group is written under its present claim, and not while a source has the group."""
        group_id, name = event.group_id, f"group/{event.group_id}"
        if self.state.link_groups.link_of(group_id) and group_id not in self._moved:
            self._broken(7, f"incarnation {writer} wrote {event}, but the source has the group")
        claim = self._claimed.get(name) or self.state.claims.get(name)
        if claim is None or (claim.incarnation, claim.epoch) != (writer, event.claim_epoch):
            self._broken(7, f"incarnation {writer} wrote {event}, but the claim is {claim}")

    # -- others -----------------------------------------------------------------------------------

    def missing_objects(self) -> list[str]:
        """Return the keys of objects with live runs that the store does not hold."""
        names = map(self.state.objects.name, sorted(live_objects(self.state)))
        return [key for key in map(self._key, names) if self._body_of(key) is None]

    def _key(self, name: ObjectName) -> str:
        return object_key(self.state, name)


def _overlap(one: ev.SegmentsOfPartition, other: ev.SegmentsOfPartition) -> bool:
    return one.base_offset < other.next_offset and other.base_offset < one.next_offset
