"""Restores of the log, from a complete copy: a new timeline, and salvage."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.backup.salvage_rules import AddFormerLives, EndSalvage, SalvageWal
from tidegate_coordination.events.cluster import Event, MetadataVersionSet
from tidegate_coordination.events.metadata_versions import EPOCHS
from tidegate_coordination.events.restores import FormerLife, TimelineOpened
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome

from ..decider import Decider
from .known import Caller, Known
from .records import BATCH_BYTES

_GAP: Final = 1_000
_SHARE: Final = 0.15


class RestoreCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = ((self.restore, 1),)

    def restore(self, decider: Decider) -> None:
        """End all incarnations, and begin a new timeline."""
        if self._rng.random() > _SHARE:
            return
        world, state = self._world, self._world.truth
        for each in world.deciders:
            each.die()
        restore_id = self._rng.randbytes(4).hex()
        former, timeline = state.gateways.next_incarnation, state.timeline + 1
        raised = [MetadataVersionSet(EPOCHS)] if state.metadata_version < EPOCHS else []
        events: list[Event] = [
            *raised,
            TimelineOpened(timeline, former + 5, state.producer_ids.next_id + _GAP, restore_id),
        ]
        own = sorted(state.gateways.live)
        salvager = world.salvager()
        salvager.append(events, world.now_ms)
        world.version = max(world.version, EPOCHS if raised else 0)
        world.restored()
        life = FormerLife(former, 7, "az7", timeline - 1)
        world.ask(salvager, AddFormerLives(restore_id, (life,)))
        salvager.commit(world.now_ms)
        for incarnation in (former, *own):
            self._salvage(salvager, incarnation)
        salvager.commit(world.now_ms)
        last = EndSalvage(restore_id, salvager.state.producer_ids.next_id + self._rng.randint(0, 5))
        world.ask(salvager, last)
        while salvager.queue:
            salvager.commit(world.now_ms)
        world.restored()

    def _salvage(self, salvager: Decider, incarnation: int) -> None:
        """Commit an object from before the restore, which may have been committed already."""
        topics = self._known.topics
        if not topics:
            return
        topic_id, (_, count) = self._rng.choice(list(topics.items()))
        index = self._rng.randrange(count)
        stamps = self._world.now_ms, self._rng.getrandbits(32)
        batch = BatchFacts(topic_id, index, 0, BATCH_BYTES, 2, *stamps, -1, -1, -1, -1, 0)
        known = self._known.last_object(incarnation)
        is_again = known is not None and self._rng.random() < 0.3
        name = known if known is not None and is_again else self._known.new_object(incarnation)

        def judged(outcomes: list[BatchOutcome], is_told: bool) -> None:
            if not is_again or outcomes[0].base_offset >= 0:  # else it was committed before
                self._world.records.judged(batch, outcomes[0])

        self._world.ask(salvager, SalvageWal(name, BATCH_BYTES, [batch]), judged)
