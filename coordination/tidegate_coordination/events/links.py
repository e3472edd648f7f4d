"""Events of links to a classic Kafka cluster, the source (tags 70 to 89).  tenant: see cluster.py.

Clients see a mirrored topic with the source's topic id.  Its batches lie here as the source's
leaders gave them: with their offsets, leader epochs, producers and markers.  Only the mirror writes
to it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec

from .cluster import Event
from .fields import Count, Since, Tenant
from .metadata_versions import LINKS, SWITCHES, TENANTS


class LinkSet(Event, frozen=True, tag=70):
    """A link is made, or its settings are replaced.

    cluster_id: the source's.  bootstrap_servers: host:port, with commas between.  topics: patterns
      of the topics to mirror; see rules/migration/mirrors.py.  Secrets stay in the gateways'
      settings.  forwards: whether gateways forward what clients write to its topics to the source.
      groups, transactional_ids: which of them gateways forward until these are moved; see
      state/migration/source_groups.py.  transaction_version: the source's; counts only with
      transactional ids.
    """

    level: ClassVar[int] = LINKS

    name: str
    cluster_id: str
    bootstrap_servers: str
    topics: tuple[str, ...]
    tenant: Tenant = 0
    forwards: Annotated[bool, Since(SWITCHES)] = False
    groups: Annotated[tuple[str, ...], Since(SWITCHES)] = ()
    transactional_ids: Annotated[tuple[str, ...], Since(SWITCHES)] = ()
    transaction_version: int = 0


class LinkRemoved(Event, frozen=True, tag=71):
    """The link is removed; it had no topic left."""

    level: ClassVar[int] = LINKS

    name: str
    tenant: Tenant = 0


class LinkedTopic(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A topic as the source has it; configs: the configs that are set and that this cluster knows.

    topic_id: the stored one; see state/topics.py.  shown_id: the source's, if that is another.
    """

    topic_id: bytes
    name: str
    partition_count: Count
    replication_factor: int
    configs: dict[str, str]
    shown_id: Annotated[bytes, Since(TENANTS)] = b""

    @property
    def source_id(self) -> bytes:
        """Return the id by which the source, and so the clients, know the topic."""
        return self.shown_id or self.topic_id


class TopicsLinked(Event, frozen=True, tag=72):
    """New topics that a link mirrors; their partitions are empty and begin at offset 0."""

    level: ClassVar[int] = LINKS

    link: str
    topics: tuple[LinkedTopic, ...]
    tenant: Tenant = 0


class MirrorPlace(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The bounds of a mirrored partition.

    There is no batch between the partition's present end and next_offset, and no batch below
    log_start any more.
    """

    partition: int
    log_start: int
    next_offset: int


class MirrorsPlaced(Event, frozen=True, tag=73):
    """The source's log start has moved, or its log end is above the last batch."""

    level: ClassVar[int] = LINKS

    places: tuple[MirrorPlace, ...]


STEP_BEGAN: Final = 0
STEP_ABORTED: Final = 1
STEP_COMMITTED: Final = 2


class MirrorStep(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A transactional batch, the first one after a marker, or a marker.  kind: STEP_*."""

    partition: int
    producer_id: int
    producer_epoch: int
    offset: int
    kind: int


class EpochBegan(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The first batch of a leader epoch in a partition."""

    partition: int
    epoch: int
    offset: int


class RunsMirrored(Event, frozen=True, tag=74):
    """The facts of the mirrored batches of the WalCommitted before it, in the order of offsets."""

    level: ClassVar[int] = LINKS

    steps: tuple[MirrorStep, ...]
    epochs: tuple[EpochBegan, ...]


REST_MS: Final = 60_000
"""So long, in log time, a gateway may stand still before it has a source take writes again.  Its
late request must not open the source of the next fence, so the topic rests meanwhile.
"""


class FencedTopic(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A topic whose source shall take no more writes.

    limit: the max.message.bytes that was set for it at the source; "" if none was.
    """

    topic_id: bytes
    limit: str


class TopicsFenced(Event, frozen=True, tag=75):
    """A switch of topics begins: gateways forward no writes to them, and keep the writers waiting.

    Then a gateway makes the source refuse writes.  Until TopicsSwitched, any gateway may lift the
    fence.
    unit: the fence of groups and transactional ids that move with the topics; 0: none.
    """

    level: ClassVar[int] = SWITCHES

    fence: int
    link: str
    topics: tuple[FencedTopic, ...]
    tenant: Tenant = 0
    unit: int = 0


class FenceReached(Event, frozen=True, tag=76):
    """A gateway has answered all writes of its clients to the fenced topics."""

    level: ClassVar[int] = SWITCHES

    fence: int
    incarnation: int


class FenceLifted(Event, frozen=True, tag=77):
    """The fenced topics remain with their source, which must accept writes again.

    Topics that were about to return remain with this cluster.

    reason: the reason, for people.  lifter: the gateway that has the source take writes again.
    """

    level: ClassVar[int] = SWITCHES

    fence: int
    reason: str
    lifter: int


class SourceReopened(Event, frozen=True, tag=78):
    """The source takes writes to the topics of a lifted fence again, and gateways forward them.

    is_sure: no other gateway can still be about to reopen the source.
    """

    level: ClassVar[int] = SWITCHES

    fence: int
    is_sure: bool


class TopicsSwitched(Event, frozen=True, tag=79):
    """The fenced topics are this cluster's from here on; the copies have all of their records.

    epochs: leader epochs of the source from where the partitions end, if they are newer than this
    cluster's.
    """

    level: ClassVar[int] = SWITCHES

    fence: int
    epochs: tuple[EpochBegan, ...] = ()


class SwitchesFinished(Event, frozen=True, tag=80):
    """The cluster forgets the source of switched topics."""

    level: ClassVar[int] = SWITCHES

    link: str
    topic_ids: tuple[bytes, ...]
    tenant: Tenant = 0


class TopicsReversing(Event, frozen=True, tag=81):
    """From here on, gateways write records of switched topics back to their source.

    Older records are written back first.
    """

    level: ClassVar[int] = SWITCHES

    link: str
    topic_ids: tuple[bytes, ...]
    tenant: Tenant = 0


class ReversedPlace(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """All batches of a partition below an offset are at the source, at the same offsets."""

    partition: int
    offset: int


class ReverseReached(Event, frozen=True, tag=82):
    """Partitions of reversing topics were written back further."""

    level: ClassVar[int] = SWITCHES

    places: tuple[ReversedPlace, ...]


class ReverseEnded(Event, frozen=True, tag=83):
    """No record of these topics is written back any more; their source must refuse writes again.

    reason: why it cannot continue, for people; "" if an operator ended it.
    """

    level: ClassVar[int] = SWITCHES

    topic_ids: tuple[bytes, ...]
    reason: str


class ReturnFenced(Event, frozen=True, tag=84):
    """Reversing topics are mirrored topics again from here on, behind a fence.

    No write to them is committed here any more.  Until TopicsReturned, any gateway may lift the
    fence; then they are this cluster's again.
    """

    level: ClassVar[int] = SWITCHES

    fence: int
    link: str
    topic_ids: tuple[bytes, ...]
    tenant: Tenant = 0


class TopicsReturned(Event, frozen=True, tag=85):
    """The topics of a fence are their source's again, which has all of their records.

    epochs: leader epochs of the source from where the partitions end, if they are newer than this
    cluster's.
    """

    level: ClassVar[int] = SWITCHES

    fence: int
    epochs: tuple[EpochBegan, ...]


class GroupsFenced(Event, frozen=True, tag=86):
    """Forwarded groups are about to move here: gateways forward nothing more of them.

    transactional_ids: names of the link; gateways let no transaction of them begin.
    """

    level: ClassVar[int] = SWITCHES

    fence: int
    link: str
    groups: tuple[str, ...]
    tenant: Tenant = 0
    transactional_ids: tuple[str, ...] = ()


class ForwardedMember(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A member of a forwarded group, as a gateway saw it.

    generation: the generation of its last accepted request. leader: the leader of that generation,
    "" if unknown.  The time-outs are -1 if the gateway did not see it join.
    """

    group_id: str
    member_id: str
    generation: int
    leader: str
    session_timeout_ms: int
    rebalance_timeout_ms: int


class GroupFenceReached(Event, frozen=True, tag=87):
    """A gateway has answered all commits of its clients for the fenced groups.

    members: those that this gateway has forwarded lately.
    """

    level: ClassVar[int] = SWITCHES

    fence: int
    incarnation: int
    members: tuple[ForwardedMember, ...]


class GroupsUnfenced(Event, frozen=True, tag=88):
    """The groups of a fence stay at their source.  reason: the reason, for people."""

    level: ClassVar[int] = SWITCHES

    fence: int
    reason: str


class GroupsMoved(Event, frozen=True, tag=89):
    """The groups and transactional ids of a fence are this cluster's from here on.

    The groups' offsets and members, and the ids' producers follow in the same entry.
    """

    level: ClassVar[int] = SWITCHES

    fence: int
