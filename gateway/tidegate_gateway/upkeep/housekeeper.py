"""Background work of a gateway: leases, retention, expiry, collection, snapshots.

Every gateway renews its own lease, and proposes the expiry of gateways whose lease has ended.  Only
the gateway that holds the claim "housekeeper" does retention, expiry of offsets and producers, and
collection.  The claim only saves work: the rules check each proposal again at its position, and
deleting an object twice does no harm.  All times in rules are log time.

A gateway whose clock is far off the cluster's proposes no expiry
(docs/architecture.md, "Leases and clocks").

Each step of a round fails alone (upkeep.py): a topic, group or object whose step fails does not
delay the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice

import structlog
import trio

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.log.inlined_bodies import first_needed_of
from tidegate_coordination.log.metadata_log import FIRST_POSITION, LogCorrupt, MetadataLog, Trimmed
from tidegate_coordination.log.snapshots import encode_state, save_verified, trim_below_verified
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_coordination.rules.consumer_groups.offset_expiry import (
    MAX_EXPIRED,
    ExpireOffsets,
    propose_expiry,
)
from tidegate_coordination.rules.gateways import ExpireGateways, ReleaseClaim, Renew, TakeClaim
from tidegate_coordination.rules.housekeeping import (
    MAX_MOVES,
    ForgetObjects,
    MoveLogStarts,
    collectable,
    plan_retention,
)
from tidegate_coordination.rules.records.producer_ids import ExpireProducers
from tidegate_coordination.state.topics import Topic
from tidegate_storage.stores.object_store import ObjectStore

from .deletions import Deletions
from .log_growth import LogGrowth
from .orphans import OrphanScan
from .upkeep import Upkeep

_log = structlog.get_logger("tidegate.housekeeper")

CLAIM = "housekeeper"
RENEWALS_PER_LEASE = 6
MAX_CLOCK_SKEW_MS = 10_000
# The most that the wall clock may move against Trio's monotonic clock.  A lone gateway has no other
# clock to compare with.
MAX_CLOCK_LEAP_MS = 3_600_000
MINUTE_MS = 60_000
GROUPS_A_ROUND = 1000
TOPICS_A_TURN = 100
FIRST_SCAN_SECONDS = 3600.0
RETRIED_SCAN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class HousekeeperSettings:
    """Settings of the housekeeper.

    interval_seconds: the time between two rounds.  orphan_scan_seconds: the time between two scans;
    0 for no scans.  snapshot_entries: the number of entries between two snapshots.  kept_entries:
    the number of entries below a snapshot that trimming keeps, so that replicas that lag a little
    do not need the snapshot.
    """

    interval_seconds: float
    orphan_scan_seconds: float
    snapshot_entries: int
    kept_entries: int


class Housekeeper:
    """Runs the background work; see the module's head.

    cluster: the cluster's settings, with this gateway's static settings, which it writes to the
    log.  check_owner: raises TimelineOver if the prefix is another log's; called before each
    deletion.  copied_log_time_ms: see BackupSchedule.  see_copied: see OrphanScan.  upkeep: counts
    the steps that fail.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        log: MetadataLog,
        store: ObjectStore,
        settings: HousekeeperSettings,
        *,
        cluster: ClusterSettings,
        check_owner: Callable[[], Awaitable[object]],
        copied_log_time_ms: Callable[[], float],
        see_copied: Callable[[int], Awaitable[object]],
        is_cut_off: Callable[[], bool],
        wall_clock: Callable[[], float],
        upkeep: Upkeep | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._upkeep = upkeep or Upkeep()
        self._log = log
        self._store = store
        self._settings = settings
        self._cluster = cluster
        self._check_owner = check_owner
        self._copied_log_time_ms = copied_log_time_ms
        self._is_cut_off = is_cut_off
        self._wall_clock = wall_clock
        self.orphans = OrphanScan(
            coordinator.state, store, check_owner=check_owner, see_copied=see_copied
        )
        self._snapshot_position = 0
        self._growth = LogGrowth()
        self._clock_offset_ms = (wall_clock() - trio.current_time()) * 1000
        self._deletions = Deletions(self._delete)
        self.collected_objects = 0
        self.failed_snapshots = 0

    async def run(self) -> None:
        """Run all background work forever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._renew)
            nursery.start_soon(self._keep_house)
            if self._log.capabilities.can_append:
                nursery.start_soon(self._take_snapshots)
            nursery.start_soon(self._look_for_orphans)

    async def _renew(self) -> None:
        lease_seconds = self._coordinator.state.gateways.lease_ms / 1000
        while True:
            await trio.sleep(lease_seconds / RENEWALS_PER_LEASE)
            await self._upkeep.attempt("renew the lease", self._renew_once)
            await self._upkeep.attempt("write its settings to the log", self._tell_settings)
            await self._upkeep.attempt("expire gateways", self._expire_gateways)

    async def _renew_once(self) -> None:
        gateways = self._coordinator.state.gateways
        me = gateways.live.get(self._coordinator.incarnation)
        age_ms = gateways.lease_time_ms - me.renewed_at_ms if me else 0
        now_ms = self._wall_clock() * 1000
        # abs(): if the clock was set back, the renewal must not wait until it reaches its old time.
        silent_ms = abs(now_ms - me.clock_ms) if me else 0
        highest = self._coordinator.state.highest_version
        # Gateways of an older release drop highest_version from snapshots and when forwarding, so
        # write it again.
        is_forgotten = me is not None and me.highest_version < highest
        if is_forgotten or max(age_ms, silent_ms) * RENEWALS_PER_LEASE >= gateways.lease_ms:
            await self._coordinator.propose(Renew(highest))

    async def _tell_settings(self) -> None:
        settings = self._cluster.to_tell(self._coordinator.incarnation)
        if settings is not None:
            await self._coordinator.propose(settings)

    async def _expire_gateways(self) -> None:
        if self._coordinator.state.gateways.expired() and self._clock_agrees():
            await self._coordinator.propose(ExpireGateways())

    def _clock_agrees(self) -> bool:
        """Return whether this clock is good enough to propose the expiry of gateways.

        The median counts this clock's present reading in addition to its last one in the log.  So
        if there are two gateways, each can expire the other, whichever clock is right; leases are
        measured in lease time (decision 3).
        """
        return self._clock_is_steady() and self._skew_ms(0) <= MAX_CLOCK_SKEW_MS

    def _clock_is_steady(self) -> bool:
        now_ms = self._wall_clock() * 1000
        leapt_ms = abs(now_ms - trio.current_time() * 1000 - self._clock_offset_ms)
        if leapt_ms > MAX_CLOCK_LEAP_MS:
            _log.error(
                "the clock leapt; nothing expires here until the gateway is started again",
                hours=round(leapt_ms / 3_600_000, 1),
            )
        return leapt_ms <= MAX_CLOCK_LEAP_MS

    def _skew_ms(self, writer: int) -> float:
        """Return how far this clock is off the median, where it counts as the clock of `writer`."""
        now_ms = int(self._wall_clock() * 1000)
        return abs(now_ms - self._coordinator.state.gateways.median_clock_ms(writer, now_ms))

    def _may_expire(self) -> bool:
        """Return whether this clock is near the median, and log time is not ahead of it."""
        state, me = self._coordinator.state, self._coordinator.incarnation
        # The readings of the other clocks are as old as their gateways' last entries.
        tolerated_ms = MAX_CLOCK_SKEW_MS + state.gateways.lease_ms / RENEWALS_PER_LEASE
        if not self._clock_is_steady() or self._skew_ms(me) > tolerated_ms:
            return False
        ahead_ms = state.log_time_ms - self._wall_clock() * 1000
        if ahead_ms > tolerated_ms:
            # The cluster began with a wrong clock, or its clocks were set back.  By log time,
            # records would look older than they are.
            _log.error(
                "the cluster's time is ahead of its clocks; nothing expires until they reach it",
                hours=round(ahead_ms / 3_600_000, 1),
            )
        return ahead_ms <= tolerated_ms

    def may_expire_here(self) -> bool:
        """Return whether no other live gateway is the housekeeper, and the clocks are good.

        A gateway does not take the claim before a housekeeping interval has passed since its start.
        Work for which clients wait, such as the end of an overdue transaction, cannot wait that
        long.
        """
        if self.is_elsewhere():
            return False
        state = self._coordinator.state
        return state.log_time_ms >= state.expiry_resumes_at_ms and self._may_expire()

    def is_elsewhere(self) -> bool:
        """Return whether another live gateway is the housekeeper."""
        state = self._coordinator.state
        claim = state.claims.get(CLAIM)
        holder = claim.incarnation if claim is not None else self._coordinator.incarnation
        return holder != self._coordinator.incarnation and state.gateways.is_live(holder)

    async def _keep_house(self) -> None:
        while True:
            await trio.sleep(self._settings.interval_seconds)
            await self._upkeep.attempt("keep house", self.keep_house_once)

    async def keep_house_once(self) -> None:
        """Do one round if this gateway holds the claim.

        If its clock is wrong, or other gateways reach the object store and this one does not,
        release the claim.
        """
        if self._is_cut_off() or not self._may_expire():
            await self._coordinator.propose(ReleaseClaim(CLAIM))
            return
        if await self._coordinator.propose(TakeClaim(CLAIM)) is None:
            return
        state = self._coordinator.state
        if state.log_time_ms < state.expiry_resumes_at_ms:
            seconds = (state.expiry_resumes_at_ms - state.log_time_ms) // 1000
            _log.warning("the cluster's time leapt at the start; expiry waits", seconds=seconds)
            return
        await self._upkeep.attempt("delete records by retention", self._cut)
        await self._upkeep.attempt("expire producers", self._expire_producers)
        await self._upkeep.attempt("look for offsets that expired", self._expire_offsets)
        await self._upkeep.attempt("collect objects", self._collect_all)

    async def _cut(self) -> None:
        """Move log start offsets up, some topics at a time, so that clients are not held up."""
        ids = list(self._coordinator.state.topics.by_id)
        for first in range(0, len(ids), TOPICS_A_TURN):
            while moves := self._moves(ids[first : first + TOPICS_A_TURN]):
                await self._coordinator.propose(MoveLogStarts(tuple(moves)))
            await trio.lowlevel.checkpoint()

    def _moves(self, topic_ids: list[bytes]) -> list[tuple[int, int]]:
        state = self._coordinator.state
        found = (state.topics.by_id.get(each) for each in topic_ids)
        moves: list[tuple[int, int]] = []
        for topic in found:
            if topic is not None and len(moves) < MAX_MOVES:
                moves += self._moves_of(topic)
        return moves[:MAX_MOVES]

    def _moves_of(self, topic: Topic) -> list[tuple[int, int]]:
        try:
            return plan_retention(self._coordinator.state, self._settings_or_none, [topic])
        except Exception as error:
            self._upkeep.note("plan a topic's retention", error, topic=topic.name)
            return []

    def _settings_or_none(self, topic: Topic) -> TopicSettings | None:
        """Return a topic's settings; None if they cannot be read, so that the topic is skipped."""
        try:
            return self._cluster.of(topic)
        except Exception as error:
            self._upkeep.note("read a topic's retention settings", error, topic=topic.name)
            return None

    async def _expire_producers(self) -> None:
        expiration_ms = self._cluster.time("producer.id.expiration.ms")
        await self._coordinator.propose(ExpireProducers(expiration_ms))

    async def _look_for_orphans(self) -> None:
        """Scan at each interval, and soon after a failure, while this gateway holds the claim."""
        pause = self._settings.orphan_scan_seconds
        if not pause:
            return
        await trio.sleep(min(pause, FIRST_SCAN_SECONDS))
        while True:
            before = self.orphans.scans
            claim = self._coordinator.state.claims.get(CLAIM)
            if claim is not None and claim.incarnation == self._coordinator.incarnation:
                await self._upkeep.attempt("look for orphans", self.orphans.run_once)
            is_done = self.orphans.scans > before
            await trio.sleep(pause if is_done else min(pause, RETRIED_SCAN_SECONDS))

    async def _expire_offsets(self) -> None:
        proposals = propose_expiry(
            self._coordinator.state,
            retention_ms=self._cluster.time("offsets.retention.minutes") * MINUTE_MS,
            log_time_ms=self._coordinator.state.log_time_ms,
        )
        for each in list(islice(proposals, GROUPS_A_ROUND)):
            step = partial(self._expire_offsets_of, each)
            await self._upkeep.attempt("expire a group's offsets", step, group=each.group_id)

    async def _expire_offsets_of(self, proposal: ExpireOffsets) -> None:
        while (await self._coordinator.propose(proposal))[0] == MAX_EXPIRED:
            pass

    async def _collect_all(self) -> None:
        state = self._coordinator.state
        grace_ms = self._cluster.time("object.delete.grace.ms")
        copied_ms = self._copied_log_time_ms()
        await self._deletions.run_once(partial(collectable, state, grace_ms, copied_ms))

    async def _delete(self, numbers: list[int]) -> bool:
        return await self._upkeep.attempt("delete objects", partial(self._collect, numbers))

    async def _collect(self, numbers: list[int]) -> None:
        state = self._coordinator.state
        objects = state.objects
        stored = [number for number in numbers if objects.inlined.was_stored(number)]
        if stored:
            keys = [object_key(state, objects.name(number)) for number in stored]
            # If the log was restored elsewhere, the new log may need objects that are dead here.
            await self._check_owner()
            await self._store.delete_many(keys)
        await self._coordinator.propose(ForgetObjects(tuple(numbers)))
        self.collected_objects += len(numbers)

    async def _take_snapshots(self) -> None:
        while True:
            await trio.sleep(self._settings.interval_seconds)
            if self._snapshot_is_due():
                await self._take_snapshot_or_complain()

    async def _take_snapshot_or_complain(self) -> None:
        """Take a snapshot.  If it is damaged when read back, log an error, and trim nothing.

        A damaged snapshot affects only starting gateways, so this one continues.
        """
        try:
            await self._upkeep.attempt("take a snapshot", self._take_due_snapshot)
        except LogCorrupt as error:
            self.failed_snapshots += 1
            _log.error(
                "a snapshot of the metadata log cannot be read back: it is not trimmed;"
                " look at the log's disk, and at `tidegate log repair`",
                error=str(error),
            )

    def _snapshot_is_due(self) -> bool:
        if self._coordinator.state.log_moves.present is not None:
            return False  # the log must not be trimmed while a move copies it
        state = self._coordinator.state
        self._growth.note(state.position, state.objects.inlined.added_bytes)
        grown = state.position - self._snapshot_position
        is_large = self._growth.is_due(self._snapshot_position)
        return is_large or grown >= self._settings.snapshot_entries

    async def _take_due_snapshot(self) -> None:
        """Take a snapshot, unless the log's first position shows a recent one.

        Another gateway, or an earlier incarnation, may have taken the recent one.
        """
        begin = await self._log.read(FIRST_POSITION, 1)
        if isinstance(begin, Trimmed):
            last = begin.first_position - 1 + self._settings.kept_entries
            self._snapshot_position = max(self._snapshot_position, last)
        if self._snapshot_is_due():
            await self.take_snapshot()

    async def take_snapshot(self) -> None:
        """Save the state, read it back, and trim the log below it; stop if the log moves meanwhile.

        The new log may hold only the snapshot that the move copied.  It then needs all entries
        after that snapshot.
        """
        state = self._coordinator.state
        is_here = partial(state.log_moves.is_settled, state.log_moves.sealed_at)
        position, chunks = await encode_state(state)
        await save_verified(self._log, position, chunks, may_go_on=is_here)
        kept = self._settings.kept_entries
        await trim_below_verified(
            self._log, keep_entries=kept, needed_of=first_needed_of, may_go_on=is_here
        )
        self._snapshot_position = position
