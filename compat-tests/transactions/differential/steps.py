"""The steps of a script, as plain values: the acting client, its request, and the error in it.

A step names producers, topics and groups by number.  Producer ids, epochs and sequence numbers are
relative to those of the producer.  So the same script runs on any broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

TOPICS: Final = 2
PARTITIONS: Final = 2
"""Of each topic."""
UNKNOWN_TOPIC: Final = 2
UNKNOWN_PARTITION: Final = 7
PRODUCERS: Final = 3
IDEMPOTENT: Final = 2
"""The producer without a transactional id."""
GROUPS: Final = 2

Place: TypeAlias = tuple[int, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Who:
    """The identity in a request.

    id: the producer's own producer id, the id of the next producer, an id that no broker gave out,
    or -1.  epoch: added to the producer's own epoch.  name: its own transactional id, the id of the
    other transactional producer, an unknown id, or the empty one.
    """

    producer: int
    id: Literal["own", "other", "unknown", "none"] = "own"
    epoch: int = 0
    name: Literal["own", "other", "unknown", "empty"] = "own"


@dataclass(frozen=True, slots=True)
class Initialise:
    """InitProducerId.  keeps: the request has the producer id and epoch of `who` (KIP-360)."""

    version: int
    who: Who
    keeps: bool = False
    timeout_ms: int = 120_000


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn.  verifies: only verify, as brokers do from version 4 on."""

    version: int
    who: Who
    places: tuple[Place, ...]
    verifies: bool = False


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """AddOffsetsToTxn."""

    version: int
    who: Who
    group: int


Sequence: TypeAlias = Literal["next", "last", "gap", "zero"]


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a Produce request.

    sequence: the next number, the number of the last batch, a number that leaves a gap of one, or
        0.
    """

    place: Place
    records: int = 1
    sequence: Sequence = "next"
    is_transactional: bool = True


@dataclass(frozen=True, slots=True)
class Write:
    """Produce.  has_name: whether the request has the transactional id."""

    version: int
    who: Who
    batches: tuple[Batch, ...]
    has_name: bool = True
    acks: int = -1


@dataclass(frozen=True, slots=True)
class Member:
    """How a request names a member of a group.

    none: not at all.  own: the group's member.  stale: with an older generation.  unknown: a member
    that the group does not have.  instance: another process with the member's instance id.  bare: a
    generation without a member id.
    """

    kind: Literal["none", "own", "stale", "unknown", "instance", "bare"] = "none"


@dataclass(frozen=True, slots=True)
class StageOffsets:
    """TxnOffsetCommit."""

    version: int
    who: Who
    group: int
    places: tuple[Place, ...]
    offset: int
    member: Member = Member()
    metadata_bytes: int = 3


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """OffsetCommit."""

    version: int
    group: int
    places: tuple[Place, ...]
    offset: int
    member: Member = Member()


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """OffsetDelete."""

    group: int
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """DeleteGroups."""

    group: int


@dataclass(frozen=True, slots=True)
class Join:
    """JoinGroup of the group's one member, or of a new one; and SyncGroup if `syncs`."""

    group: int
    is_static: bool
    syncs: bool = True


@dataclass(frozen=True, slots=True)
class Leave:
    """LeaveGroup, by the group's member."""

    group: int


@dataclass(frozen=True, slots=True)
class End:
    """EndTxn."""

    version: int
    who: Who
    commits: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """WriteTxnMarkers, as kafka-transactions.sh sends it."""

    version: int
    who: Who
    place: Place
    commits: bool = False


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """DeleteRecords below an offset.  hundredths: of the records to delete; None: all."""

    place: Place
    hundredths: int | None


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """DeleteTopics."""

    topic: int


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """CreateTopics for a deleted topic."""

    topic: int


@dataclass(frozen=True, slots=True)
class TimeOut:
    """Wait until the broker has aborted the transaction of a producer."""

    producer: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """Send the bytes of an earlier step again.  step: its index."""

    step: int


@dataclass(frozen=True, slots=True)
class ListAll:
    """ListTransactions."""

    version: int
    states: tuple[str, ...] = ()
    of_producer: int | None = None
    pattern: str | None = None
    duration_ms: int = -1


Step: TypeAlias = (
    Initialise
    | AddPartitions
    | AddOffsets
    | Write
    | StageOffsets
    | CommitOffsets
    | DeleteOffsets
    | DeleteGroup
    | Join
    | Leave
    | End
    | Mark
    | DeleteRecords
    | DeleteTopic
    | CreateTopic
    | TimeOut
    | Repeat
    | ListAll
)


@dataclass(frozen=True, slots=True)
class Script:
    """A script.

    number: of the script in its run.  shares_name: both transactional producers have one id.
    peeks: for each step, the begin of a fetch of committed records, in hundredths of the log.
    worn_to: the epoch of the first producer before the first step; -1: it has none.
    """

    number: int
    shares_name: bool
    steps: tuple[Step, ...]
    peeks: tuple[int, ...]
    fetch_version: int = 12
    worn_to: int = -1

    def cause(self, index: int) -> Step:
        """Return a step; for a Repeat, the step whose bytes it repeats."""
        step = self.steps[index]
        return self.cause(step.step) if isinstance(step, Repeat) else step
