"""A consumer group of the model: what its log holds, and the machine of its coordinator.  Pure.

The product's machine of classic groups decides (tidegate_coordination.groups).  Its records are
durable at once.  No task runs its timers.  run_timers() handles the time-outs that have passed,
each with the time at which it was due, so the group gets the same state as with a task.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate_coordination.events.groups import GroupChanged
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.values import (
    Answer,
    JoinAnswer,
    Persist,
    Refusal,
    SyncAnswer,
)

from .model_topics import NO_LEADER, CommittedOffset, PartitionKey


@dataclass(slots=True, eq=False)
class ModelGroup:
    """A group; without members it is only committed offsets.

    coordinator: the broker that has the machine; NO_LEADER while no broker runs.
    machine: lost when the coordinator stops; record and offsets stay.
    answers: to parked joins and syncs, by ticket, until their connections take them.
    is_loading: see begin_loading().
    """

    machine: ClassicGroup
    coordinator: int
    offsets: dict[PartitionKey, CommittedOffset] = field(
        default_factory=dict[PartitionKey, CommittedOffset]
    )
    is_loading: bool = False
    record: GroupChanged = field(init=False)
    answers: dict[int, JoinAnswer | SyncAnswer] = field(
        default_factory=dict[int, JoinAnswer | SyncAnswer]
    )
    last_ticket: int = 0

    def __post_init__(self) -> None:
        """Note that a new group is empty."""
        self.record = GroupChanged(self.group_id, 0, "", 0, None, None, ())

    @property
    def group_id(self) -> str:
        """Return the group's name."""
        return self.machine.group_id

    def next_ticket(self) -> int:
        """Return the ticket of one more join or sync."""
        self.last_ticket += 1
        return self.last_ticket

    def run_timers(self, now: float) -> None:
        """Handle the time-outs until now, in their order."""
        while (due := self.machine.next_deadline()) <= now:
            self.machine.tick(due)
            self.carry_out(due)

    def carry_out(self, now: float) -> None:
        """Write the machine's records, and keep its answers for the parked requests."""
        while effects := self.machine.take_effects():
            for effect in effects:
                match effect:
                    case Answer(ticket, value):
                        self.answers[ticket] = value
                    case Persist(record):
                        self.record = record
                        self.machine.persisted(now)

    # -- the coordinator moves --------------------------------------------------------------------

    def move(self, coordinator: int, now: float) -> None:
        """Let another broker read the group from its log."""
        self._reload(now)
        self.coordinator = coordinator

    def begin_loading(self, now: float) -> None:
        """Let a coordinator that has just moved answer COORDINATOR_LOAD_IN_PROGRESS."""
        self._reload(now)
        self.is_loading = True

    def end_loading(self, now: float) -> None:
        """Let the coordinator answer; the sessions of all members begin now."""
        self._reload(now)
        self.is_loading = False

    def _reload(self, now: float) -> None:
        """Restore the machine from the log, as Kafka does.

        Parked requests get NOT_COORDINATOR.  A rebalance under way is lost.  The members of the
        last generation that was stored continue without a join.
        """
        if self.coordinator != NO_LEADER and not self.is_loading:
            self.run_timers(now)  # without a coordinator no timers run
        self.machine.abandon(Refusal.NOT_COORDINATOR)
        self.carry_out(now)
        self.machine = ClassicGroup.restore(
            self.record, claim_epoch=0, settings=self.machine.settings, now=now
        )
