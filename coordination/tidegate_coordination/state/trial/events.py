"""The checks of a trial (entry_trial.py), by the type of event; those of some subjects are in the
modules beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from ...events import cluster as ev
from ...events import groups as gev
from ...events import links as kev
from ...events import log_moves as lev
from ...events import restores as rev
from ..broken import StateBroken, expect, expect_left
from ..columns import MAX_UINT32
from ..records.producer_ids import FIRST_IDS
from ..tables import StateTables
from ..topics import Topic, collision_key
from .inlined import InlineTrial
from .once import Once, kept_topic, only_once
from .runs import RunTrial
from .security import SecurityTrial
from .switches import SwitchTrial
from .transactions import TransactionTrial

_TOPIC_RESOURCE: Final = 2
# A bound of one event: above the limit of any rule, and below the limit of a replica.
MAX_PARTITIONS: Final = 1_000_000


class TrialParts:
    """The checks of one entry under construction; each says what the fold expects."""

    def __init__(self, state: StateTables) -> None:
        self._state: Final = state
        self.runs: Final = RunTrial(state)
        self._once: Final[Once] = set()
        self._registered = 0
        self._partitions = 0
        self._acknowledged: Final[dict[int, int]] = {}

    # An entry of WAL commits alone needs none of these.

    @cached_property
    def transactions(self) -> TransactionTrial:
        """Return the checks of events of transactions."""
        return TransactionTrial(self._state, self.runs)

    @cached_property
    def inlined(self) -> InlineTrial:
        """Return the checks of events of small writes."""
        return InlineTrial(self._state, self.runs)

    @cached_property
    def switches(self) -> SwitchTrial:
        """Return the checks of events of switched topics."""
        return SwitchTrial(self._state, self._once)

    @cached_property
    def security(self) -> SecurityTrial:
        """Return the checks of events of ACLs, credentials, quotas and tokens."""
        return SecurityTrial(self._state)

    def _only_once(self, what: str, key: object) -> None:
        only_once(self._once, what, key)

    # -- the cluster and its gateways ------------------------------------------------------------

    def cluster_created(self, event: ev.ClusterCreated) -> None:
        """Check that a cluster is created once, with its own range of ids."""
        expect(not self._state.cluster_id, "a cluster is created once")
        expect(event.first_producer_id in FIRST_IDS, f"producer ids from {event.first_producer_id}")
        self._only_once("cluster", "")

    def version_set(self, event: ev.MetadataVersionSet) -> None:
        """Check that the level rises, to one that this release reads."""
        state = self._state
        bounds = range(state.metadata_version + 1, state.highest_version + 1)
        expect(event.version in bounds, f"metadata.version {event.version} is not one of {bounds}")
        self._only_once("metadata.version", "")

    def registered_one(self, event: ev.GatewayRegistered) -> None:
        """Check that the incarnation is the next one, and that the superseded incarnation lives."""
        gateways = self._state.gateways
        following = gateways.next_incarnation + self._registered
        expect(event.incarnation == following, f"incarnation {event.incarnation}")
        expect_left(following < MAX_UINT32, "the numbers of incarnations have run out")
        self._registered += 1
        if event.supersedes:
            self._ends(event.supersedes)

    def lives(self, event: ev.GatewayDraining | ev.StaticSettingsTold) -> None:
        """Check that the incarnation lives."""
        self._lives(event.incarnation)

    def drains(self, event: ev.GatewayDrained) -> None:
        """Check that the incarnation is draining."""
        self._drains(event.incarnation)

    def ends(self, event: ev.GatewayExpired) -> None:
        """Check that the incarnation lives, and ends once."""
        self._ends(event.incarnation)

    def _lives(self, incarnation: int) -> None:
        lives = self._state.gateways.is_live(incarnation)
        has_ended = ("the end of incarnation", incarnation) in self._once
        expect(lives and not has_ended, f"incarnation {incarnation} is not live")

    def resumed(self, event: ev.GatewayResumed) -> None:
        """Check that the incarnation drains, and resumes once."""
        self._drains(event.incarnation)
        self._only_once("return", event.incarnation)

    def _drains(self, incarnation: int) -> None:
        self._lives(incarnation)
        expect(self._state.gateways.live[incarnation].draining, f"{incarnation} is not draining")

    def _ends(self, incarnation: int) -> None:
        self._lives(incarnation)
        self._only_once("the end of incarnation", incarnation)

    def claim_taken(self, event: ev.ClaimTaken) -> None:
        """Check that the claim's epoch is the next one."""
        last = self._state.claims.get(event.name)
        epoch = last.epoch if last is not None else 0
        expect(event.epoch == epoch + 1, f"claim {event.name}: epoch {event.epoch}")
        self._only_once("claim", event.name)

    def claim_released(self, event: ev.ClaimReleased) -> None:
        """Check that the claim exists."""
        known = self._state.claims.get(event.name) is not None
        known = known and ("claim", event.name) not in self._once
        expect(known, f"claim {event.name} released, but unknown")

    def timeline_opened(self, event: rev.TimelineOpened) -> None:
        """Check that the timeline, incarnations and producer ids are new."""
        state = self._state
        expect(event.timeline > state.timeline, f"timeline {event.timeline}")
        later = event.first_incarnation >= state.gateways.next_incarnation
        expect(later, f"incarnation {event.first_incarnation} again")
        self._owns_ids(event.first_producer_id)
        self._only_once("timeline", "")

    def former_lives(self, event: rev.FormerLivesFound) -> None:
        """Check that the incarnations are past ones, which the state does not know."""
        self._restores(event.restore_id)
        gateways = self._state.gateways
        for life in event.lives:
            new = life.incarnation not in gateways.homes
            past = life.incarnation < gateways.next_incarnation
            expect(new and past, f"incarnation {life.incarnation} is no former life")
            self._only_once("former life", life.incarnation)

    def salvage_ended(self, event: rev.SalvageEnded) -> None:
        """Check that the restore is under way."""
        self._restores(event.restore_id)
        self._owns_ids(event.first_producer_id)

    def _owns_ids(self, first: int) -> None:
        """Check that the next id is the cluster's; an id below its range changes nothing."""
        is_own = first < self._state.producer_ids.own.stop
        expect(is_own, f"producer ids from {first}, which are not the cluster's")

    def _restores(self, restore_id: str) -> None:
        timelines = self._state.timelines
        is_it = timelines.is_restoring and restore_id == timelines.restore_id
        expect(is_it, f"an entry of another restore {restore_id}")

    def proposed(self, event: ev.Proposed) -> None:
        """Check that the proposal is decided for the first time."""
        author, number = event.incarnation, event.number
        expect(author > 0, "a numbered proposal without an author")
        self._lives(author)
        proposals = self._state.proposals
        is_over = proposals.is_acknowledged(author, number)
        is_over = is_over or number <= self._acknowledged.get(author, 0)
        is_decided = proposals.answer(author, number) is not None
        expect(not is_over and not is_decided, f"proposal {number} of {author} again")
        self._only_once("proposal", (author, number))
        self._acknowledged[author] = max(event.acknowledged, self._acknowledged.get(author, 0))

    def ids_reserved(self, event: ev.ProducerIdsReserved) -> None:
        """Check that the ids are the next ones, and within the cluster's range."""
        expect(event.first == self._state.producer_ids.next_id, f"producer ids from {event.first}")
        expect(event.count > 0, f"{event.count} producer ids")
        left = self._state.producer_ids.own.stop - event.first
        expect_left(event.count < left, "the cluster's producer ids have run out")
        self._only_once("producer ids", event.first)

    # -- topics, groups, log moves ---------------------------------------------------------------

    def topic_begins(self, topic: ev.TopicCreated | kev.LinkedTopic, shown_id: bytes = b"") -> None:
        """Check that ids and name are free."""
        topics, key = self._state.topics, collision_key(topic.name)
        for each in {topic.topic_id, shown_id or topic.topic_id}:
            expect(not topics.has_id(each), f"topic id of {topic.name} is taken")
            self._only_once("topic id", each)
        expect(key not in topics.by_collision_key, f"topic name {topic.name} is taken")
        self._only_once("topic name", key)
        self._add_partitions(topic.partition_count)

    def topics_linked(self, event: kev.TopicsLinked) -> None:
        """Check that the link exists, and ids and names are free."""
        self._state.links.expect_link(event.link)
        expect(("end of link", event.link) not in self._once, f"link {event.link} is removed")
        for each in event.topics:
            self.topic_begins(each, each.shown_id)

    def link_removed(self, event: kev.LinkRemoved) -> None:
        """Check that the link exists, and has no topic."""
        self._state.links.expect_link(event.name)
        for topic in self._state.links.topics_of(event.name):
            expect(("end of topic", topic.topic_id) in self._once, f"a link with {topic.name}")
        self._only_once("end of link", event.name)
        for fence in self._state.switches.of_link(event.name):
            self._only_once("end of fence", fence.number)

    def partitions_added(self, event: ev.PartitionsAdded) -> None:
        """Check that the topic exists."""
        present = len(self._topic(event.topic_id).partition_numbers)
        expect(event.partition_count > present, f"{event.partition_count} is not more partitions")
        self._only_once("growth of topic", event.topic_id)
        self._add_partitions(event.partition_count - present)

    def _add_partitions(self, count: int) -> None:
        self._partitions += count
        following = self._state.partitions.next_number + self._partitions
        expect(count <= MAX_PARTITIONS, f"{count} partitions at once")
        expect_left(following < MAX_UINT32, "the numbers of partitions have run out")

    def topic_deleted(self, event: ev.TopicDeleted) -> None:
        """Check that the topic exists."""
        topic = self._topic(event.topic_id)
        self._only_once("end of topic", event.topic_id)
        self.runs.topic_deleted(topic)
        self.transactions.topic_deleted(topic.partition_numbers)

    def configs_set(self, event: ev.ConfigsSet) -> None:
        """Check that the topic exists."""
        if event.resource_type == _TOPIC_RESOURCE:
            topic = self._state.topics.by_name.get(event.resource_name)
            expect(topic is not None, f"configs of unknown topic {event.resource_name}")
            if topic is not None:
                self._topic(topic.topic_id)

    def _topic(self, topic_id: bytes) -> Topic:
        return kept_topic(self._state, self._once, topic_id)

    def group_changed(self, event: gev.GroupChanged) -> None:
        """Check that the generation does not fall."""
        last = self._state.groups.get(event.group_id)
        expect(
            last is None or event.generation >= last.generation,
            f"group {event.group_id}: generation {event.generation} after a later one",
        )
        # Other events are checked against its generation, and whether it has members.
        self._only_once("group", event.group_id)

    def offsets_deleted(self, event: gev.OffsetsDeleted) -> None:
        """Check that the offsets exist."""
        group = self._state.groups.get(event.group_id)
        is_gone = ("group", event.group_id) in self._once
        expect(group is not None and not is_gone, f"unknown group {event.group_id}")
        for topic_id, partition in event.partitions:
            found = group is not None and group.offset(topic_id, partition) is not None
            found = found or self.transactions.is_pending(event.group_id, (topic_id, partition))
            found = found and ("end of topic", topic_id) not in self._once
            expect(found, f"group {event.group_id}: no offset to delete")
            self._only_once("offset", (event.group_id, topic_id, partition))

    def group_deleted(self, event: gev.GroupDeleted) -> None:
        """Check that the group has no members."""
        group = self._state.groups.get(event.group_id)
        members: Sequence[object] = group.members if group is not None else ()
        expect(not members, f"group {event.group_id} deleted, but it has members")
        self._only_once("group", event.group_id)
        self._only_once("claim", f"group/{event.group_id}")

    def move_begun(self, event: lev.LogMoveBegun) -> None:
        """Check that the mover lives."""
        self._lives(event.incarnation)
        present = self._state.log_moves.present
        if present is not None:
            self._only_once("end of log move", present.move_id)

    def moves(
        self, event: lev.LogMoveOffered | lev.LogMoveAnswered | lev.LogMoveCancelled | lev.LogMoved
    ) -> None:
        """Check that the move is under way."""
        move = self._state.log_moves.present
        if move is None or move.move_id != event.move_id:
            raise StateBroken(f"log move {event.move_id} is not under way")
        self._lives(move.mover)
        has_ended = ("end of log move", event.move_id) in self._once
        expect(not has_ended, f"log move {event.move_id} has ended in the same entry")

    def move_ends(self, event: lev.LogMoveCancelled | lev.LogMoved) -> None:
        """Check that the move is under way, and ends once."""
        self.moves(event)
        self._only_once("end of log move", event.move_id)

    def moved(self, event: lev.LogMoved) -> None:
        """Check that the log was offered, and the move ends once."""
        self.move_ends(event)
        move = self._state.log_moves.present
        expect(move is not None and bool(move.offered_at), "a log move ends before it was offered")
