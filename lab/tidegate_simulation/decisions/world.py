"""Deciders, their log and their clocks, and the operations of clients, all drawn from one seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tidegate_coordination.events.cluster import ClaimTaken, Endpoint, GatewayRegistered
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.events.groups import GroupDeleted
from tidegate_coordination.events.metadata_versions import FIRST, KEPT_SKIPS, NEWEST
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.events.transactions import TransactionalIdsExpired
from tidegate_coordination.forwarding.codec import kind_of
from tidegate_coordination.rules.gateways import CannotJoin, ExpireGateways, Register, Renew
from tidegate_coordination.rules.migration.group_moves import GroupToMove
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC

from ..invariants.format_checks import FormatWatch
from ..invariants.lease_checks import LeaseWatch
from .decider import Asked, Decider
from .forwarding import Forwards
from .promises.claims import ClaimPromises
from .promises.configs import ConfigPromises
from .promises.epochs import EpochPromises
from .promises.holes import HolePromises
from .promises.links import LinkPromises
from .promises.lives import LifePromises, MovePromises
from .promises.moment import Moment
from .promises.objects import ObjectPromises
from .promises.offsets import OffsetPromises
from .promises.records import RecordPromises
from .promises.security import RightPromises, TokenPromises
from .promises.transactions import TransactionPromises
from .promises.views import ViewPromises
from .pure_log import PureLog
from .source import FOREIGN, PRODUCERS, Source

DECIDERS: Final = 3
START_MS: Final = 1_000_000_000_000
_MAX_PASSED_MS: Final = 2_000
_MAX_SKEW_MS: Final = 5_000
_ENDPOINTS: Final = (Endpoint("PLAINTEXT", "localhost", 9092),)
_OLD_SHARE: Final = 0.2
_TOO_OLD_SHARE: Final = 0.04
_FORWARDED: Final = 0.15
_TWICE: Final = 0.4


@dataclass(frozen=True, slots=True)
class Violation:
    """operation: its number."""

    operation: int
    text: str


class World:
    """See the module's head.

    version: the cluster's level by the answers so far.  operation: the number of the present one.
    changes: log positions of the last accepted change of configs, by the topic's name.
    """

    def __init__(self, rng: Random) -> None:
        self.rng: Final = rng
        self.log: Final = PureLog()
        self.now_ms = START_MS
        self.operation = 0
        self.violations: list[Violation] = []
        self.decided: Final[Counter[type]] = Counter()
        self.folded: Final[Counter[type]] = Counter()
        self.version = rng.randint(FIRST, NEWEST) if rng.random() < _OLD_SHARE else NEWEST
        self.changes: Final[dict[str, int]] = {}
        self.moment: Final = Moment(self.complain)
        self.source: Final = Source(rng)
        self.records: Final = RecordPromises(self.moment)
        self.objects: Final = ObjectPromises(self.moment)
        self.epochs: Final = EpochPromises(self.moment, self.records)
        self.holes: Final = HolePromises(self.moment, self.records)
        self.claims: Final = ClaimPromises(self.moment)
        self.transactions: Final = TransactionPromises(self.moment, self.records, self._committed)
        self.offsets: Final = OffsetPromises(self.moment, self.transactions.is_staged)
        self.rights: Final = RightPromises(self.moment)
        self.tokens: Final = TokenPromises(self.moment)
        self.configs: Final = ConfigPromises(self.moment)
        self.lives: Final = LifePromises(self.moment)
        self.moves: Final = MovePromises(self.moment)
        self.links: Final = LinkPromises(
            self.moment, self.source, self.records, self.holes, self.lives, self.configs
        )
        self._views: Final = ViewPromises(self.complain)
        self.transactions.foreign.update(range(FOREIGN, FOREIGN + PRODUCERS))
        self._leases: Final = LeaseWatch(self._complain_of, lambda: self.now_ms / 1000)
        self._forwards: Final = Forwards(rng, self.complain)
        self.deciders: Final = [self._decider(number) for number in range(1, DECIDERS + 1)]

    @property
    def truth(self) -> ClusterState:
        """Return the fold of all entries."""
        return self.moment.truth

    def _decider(self, number: int) -> Decider:
        return Decider(number, self.log, self.rng, self)

    def salvager(self) -> Decider:
        """Return a decider that has read to the log's end, and is registered as no gateway."""
        found = self._decider(0)
        while found.follow():
            pass
        return found

    def complain(self, text: str) -> None:
        """Record a violation."""
        self.violations.append(Violation(self.operation, text))

    def _complain_of(self, kind: str, text: str) -> None:
        self.complain(f"{kind}: {text}")

    def complain_at_newest(self, text: str) -> None:
        """Record a violation if the cluster has the newest level; else a refusal may be right."""
        if self.truth.metadata_version == NEWEST:
            self.complain(text)

    # -- entries ------------------------------------------------------------------------------

    def before(self, entry: Entry, position: int) -> None:
        """Judge an entry that was just appended, before its fold."""
        self.folded.update(map(type, entry.events))
        self.moment.events = entry.events
        self.records.before(entry)
        FormatWatch(self.truth, self._complain_of).before(position, entry)
        self._leases.before(self.truth, entry)
        self.links.before(entry)
        self.lives.before(entry)
        self.moves.before(entry)
        self.objects.before(entry)
        self.tokens.before(entry)
        for event in entry.events:
            if isinstance(event, GatewayRegistered) and event.supersedes:
                self.claims.inherited(event.supersedes, event.incarnation)
            if isinstance(event, TimelineOpened):
                self.epochs.restored()

    def after(self, state: ClusterState) -> None:
        """Take the state after an entry; then its answers are judged."""
        self.moment.truth = state
        FormatWatch(state, self._complain_of).after_entry()
        self.epochs.after(state)
        self.rights.entry()
        for event in self.moment.of_kind(TransactionalIdsExpired):
            self.transactions.expired(event.transactional_ids, state.log_time_ms)

    def rest(self) -> None:
        """Note that the next answers need no entry."""
        self.moment.events = ()

    def is_group_deleted(self, group_id: str) -> bool:
        """Return whether the last entry deletes a group, or its claim."""
        return any(each.group_id == group_id for each in self.moment.of_kind(GroupDeleted))

    @property
    def keeps_skips(self) -> bool:
        """Return whether skipped runs are kept."""
        return self.truth.metadata_version >= KEPT_SKIPS

    def _committed(self, key: tuple[str, bytes, int], offset: int, at_ms: int) -> None:
        self.offsets.committed(key, offset, at_ms)

    def moved_groups(self, fence: int, groups: Sequence[GroupToMove]) -> None:
        """Judge a move of groups to this cluster."""
        ids = [each.record.group_id for each in groups]
        self.links.groups_moved(fence, ids)
        for event in self.moment.of_kind(ClaimTaken):
            if event.name.removeprefix("group/") in ids:
                self.claims.moved(event.name, event.incarnation, event.epoch)
        for each in groups:
            self.offsets.changed(each.record.group_id, each.record.generation, None)
            for one in each.offsets:
                key = each.record.group_id, one.topic_id, one.partition
                self.offsets.committed(key, one.offset)

    def restored(self) -> None:
        """Record a step of a restore: all that was open is over."""
        self.transactions.restored()
        self.records.restored()
        self.links.held()

    # -- deciders -----------------------------------------------------------------------------

    def live(self) -> Decider | None:
        """Return any decider that serves clients, registered in its own view."""
        decider = self.rng.choice(self.deciders)
        return decider if decider.incarnation and not decider.has_left else None

    def ask(
        self,
        decider: Decider,
        proposal: Proposal[Any],
        judged: Callable[[Any, bool], None] = lambda answer, is_told: None,
        *,
        may_fail: bool = False,
    ) -> None:
        """Queue a proposal, at the decider or through others.

        may_fail: the proposal may be too large.  Else its failure is a violation.
        """
        failed = self._failed_as_may_be if may_fail else self._failed
        asked = Asked(proposal, judged, lambda: None, failed)
        kind = kind_of(proposal) if decider.incarnation else None
        if kind is None or self.rng.random() > _FORWARDED:
            decider.queue.append(asked)
            return
        count = 1 + (self.rng.random() < _TWICE)
        targets = [each for each in self.rng.sample(self.deciders, count) if each.incarnation]
        if targets:
            self._forwards.send(decider, targets, kind, asked, self.now_ms)

    def _failed(self, text: str) -> None:
        self.complain(f"a proposal failed: {text}")

    def _failed_as_may_be(self, text: str) -> None:
        if "internal error" in text:
            self._failed(text)

    def register(self, decider: Decider) -> None:
        """Register a new incarnation."""
        decider.skew_ms = self.rng.randint(-_MAX_SKEW_MS, _MAX_SKEW_MS)
        while decider.follow():
            pass
        first = not self.log.payloads
        decider.highest_version = self.version if first else self._highest_version()
        proposal = Register(
            decider.number,
            f"instance-{decider.number}",
            f"az{decider.number}",
            _ENDPOINTS,
            "1",
            "cluster",
            highest_version=decider.highest_version,
        )

        def judged(answer: Any, is_told: bool) -> None:
            if answer is CannotJoin.TOO_OLD and proposal.highest_version < self.version:
                return
            if not isinstance(answer, int):
                self.complain(f"{decider.number} cannot register: {answer}")
            elif is_told:
                decider.incarnation = answer

        decider.queue.append(Asked(proposal, judged, lambda: None, self._failed))
        decider.commit(self.now_ms)

    def _highest_version(self) -> int:
        """Return the highest level that a new gateway can read.

        At times the gateway is of an older release, and may be too old to join.
        """
        draw = self.rng.random()
        if draw < _TOO_OLD_SHARE:
            return self.rng.randint(FIRST, self.version)
        return self.version if draw < _OLD_SHARE else NEWEST

    def pass_time(self) -> None:
        """Let the clocks advance."""
        self.now_ms += self.rng.randint(0, _MAX_PASSED_MS)

    def step(self, decider: Decider) -> None:
        """Let a decider append, read, start again, or fall behind."""
        if decider.has_left:
            decider.die()
        if not decider.incarnation:
            self.register(decider)
            return
        draw = self.rng.random()
        if draw < 0.70:
            decider.commit(self.now_ms, is_told=draw > 0.01)
        elif draw < 0.90:
            decider.follow(self.rng.randint(1, 40))
        elif draw < 0.92:
            decider.restore()
        elif draw < 0.93:
            decider.die()
        elif draw < 0.98:
            self.ask(decider, Renew(decider.highest_version))
        else:
            self.ask(decider, ExpireGateways())

    # -- checks -------------------------------------------------------------------------------

    def check(self) -> None:
        """Check all that costs more than an operation."""
        encoded = self.truth.encode()
        formats = FormatWatch(self.truth, self._complain_of)
        formats.after_entry()
        formats.snapshot(self.truth.position, encoded)
        if ClusterState.decode(encoded).encode() != encoded:
            self.complain("decoding a snapshot gives another state")
        decider = self.rng.choice(self.deciders)
        while decider.follow():
            pass
        for state in (self.truth, decider.state):
            self._views.check(state)
        for other in self.deciders:
            is_as_far = other.state.position == self.truth.position
            if is_as_far and other.state is not self.truth and other.state.encode() != encoded:
                self.complain(f"decider {other.number} holds another state")
        if self.truth.cluster_id and self.truth.metadata_version != self.version:
            text = f"the level is {self.truth.metadata_version} instead of {self.version}"
            self.complain(text)
        for each in (
            self.offsets,
            self.transactions,
            self.rights,
            self.tokens,
            self.configs,
            self.lives,
            self.objects,
            self.links,
        ):
            each.check()
        self._check_partitions()

    def _check_partitions(self) -> None:
        places: set[tuple[bytes, int]] = set()
        offsets_topic = self.truth.topics.by_name.get(OFFSETS_TOPIC)
        for partition in self.truth.partitions.values():
            if offsets_topic is not None and partition.topic_id == offsets_topic.topic_id:
                continue
            place = (partition.topic_id, partition.index)
            places.add(place)
            promised = self.records.partitions.get(place)
            if promised is None:
                self.complain(f"{place} exists, and no answer said so")
                continue
            if partition.next_offset != promised.next_offset:
                text = f"ends at {partition.next_offset} instead of {promised.next_offset}"
                self.complain(f"{place} {text}")
            self.holes.check(partition)
            self.records.stable.check(partition)
            self.epochs.check(partition)
        for place in self.records.partitions.keys() - places:
            self.complain(f"{place} is gone, and no answer said so")
