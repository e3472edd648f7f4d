"""A model of all transactional ids, kept by the events of the log alone.

It decides by its own rules what each event may do, and reports violations: invariants 10 and 14.

    10   one marker for each partition of a transaction, all in one entry
    14   an epoch of a producer id is given once, and 32767 never; an end that the client of the
         epoch did not ask for fences that client
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tidegate_coordination.events import transactions as tev

MARKERS_ONLY: Final = 32_767
NOT_WRITTEN: Final = -1


@dataclass(slots=True)
class ModelId:
    """A transactional id.

    partitions: those of the open transaction, with the first offset or NOT_WRITTEN.  groups: those
    of the open transaction.  ended: the name of the state while no transaction is open.
    began: the position at which the last transaction began.
    """

    name: str
    producer_id: int
    epoch: int
    timeout_ms: int
    updated_ms: int
    is_open: bool = False
    ended: str = "Empty"
    partitions: dict[int, int] = field(default_factory=dict[int, int])
    groups: set[str] = field(default_factory=set[str])
    began: int = -1
    started_ms: int = -1

    @property
    def state(self) -> str:
        """Return Kafka's name of the state."""
        return "Ongoing" if self.is_open else self.ended

    def begin(self, now_ms: int, position: int) -> None:
        """Begin a transaction unless one is open."""
        if not self.is_open:
            self.is_open, self.began, self.started_ms = True, position, now_ms
        self.updated_ms = now_ms


_MOVED: Final = {0: "Empty", 4: "CompleteCommit", 5: "CompleteAbort"}
"""States of ids that move here."""
_CAUSES: Final = {
    tev.CAUSE_CLIENT: "aborted",
    tev.CAUSE_TIME_OUT: "timed_out",
    tev.CAUSE_INITIALISED: "initialised",
    tev.CAUSE_OPERATOR: "operator",
    tev.CAUSE_RESTORED: "restored",
}


class TransactionalIds:
    """See the module's head.

    broken: called with the number of an invariant, and a text.  count: called with the kind of each
    end, and of other rare events.
    """

    def __init__(self, broken: Callable[[int, str], None], count: Callable[[str], None]) -> None:
        self._broken = broken
        self._count = count
        self._given: set[tuple[int, int]] = set()
        self._owner: dict[int, str] = {}
        self.by_name: dict[str, ModelId] = {}
        self.by_producer: dict[int, ModelId] = {}

    def initialised(self, event: tev.TransactionalIdInitialised, now_ms: int) -> ModelId:
        """Give an id its next epoch."""
        name = event.transactional_id
        last = self.by_name.get(name)
        if last is not None and last.is_open:
            self._broken(9, f"id {name} is initialised while its transaction is open")
        now = (event.producer_id, event.producer_epoch)
        if last is None or now != (last.producer_id, last.epoch):
            self._give(name, last, *now)
        if last is not None:
            self.by_producer.pop(last.producer_id, None)
        if event.state and last is not None:
            self._broken(9, f"id {name} moves here, and was here")
        ended = _MOVED[event.state]
        fresh = ModelId(name, *now, event.timeout_ms, now_ms, ended=ended)
        self.by_name[name] = self.by_producer[event.producer_id] = fresh
        return fresh

    def _give(self, name: str, last: ModelId | None, producer_id: int, epoch: int) -> None:
        is_known = (producer_id, epoch) in self._given
        if is_known or not 0 <= epoch < MARKERS_ONLY:
            self._broken(14, f"producer {producer_id} gets epoch {epoch}, for {name}")
        if self._owner.setdefault(producer_id, name) != name:
            self._broken(14, f"producer {producer_id} of {self._owner[producer_id]} is {name}'s")
        if last is not None and last.producer_id == producer_id and epoch <= last.epoch:
            self._broken(14, f"{name} has epoch {last.epoch} of {producer_id}, and gets {epoch}")
        self._given.add((producer_id, epoch))
        if last is not None and last.producer_id != producer_id:
            self._count("transaction.rotated")

    def of(self, producer_id: int, what: str) -> ModelId | None:
        """Return the transactional id of a producer; complain if it has none."""
        found = self.by_producer.get(producer_id)
        if found is None:
            self._broken(11, f"{what} of producer {producer_id}, which has no transactional id")
        return found

    def ended(self, event: tev.TransactionEnded, now_ms: int) -> ModelId | None:
        """End a transaction; return the id as it was."""
        found = self.of(event.producer_id, "an end")
        if found is None:
            return None
        numbers = [number for number, _ in event.markers]
        expected = set(found.partitions) if found.is_open else set[int]()
        if len(numbers) != len(set(numbers)) or set(numbers) != expected:
            self._broken(10, f"{event}, and {found.name} has {sorted(expected)}")
        if event.committed and not found.is_open:
            self._broken(10, f"{event}, and {found.name} has nothing open")
        self._check_cause(event, found, now_ms)
        following = (event.next_producer_id, event.next_epoch)
        if following != (found.producer_id, found.epoch):
            self._give(found.name, found, *following)
        elif event.cause != tev.CAUSE_CLIENT:
            self._broken(14, f"{event} fences no client of {found.name}")
        if found.is_open:
            cause = "committed" if event.committed else _CAUSES[event.cause]
            self._count(f"transaction.{cause}")
        if not found.epoch <= event.marker_epoch <= MARKERS_ONLY:
            self._broken(14, f"{event} has a marker of another epoch than {found.epoch}")
        self._close(event, found, now_ms)
        return found

    def _check_cause(self, event: tev.TransactionEnded, found: ModelId, now_ms: int) -> None:
        if event.cause != tev.CAUSE_CLIENT and event.committed:
            self._broken(10, f"{event} commits, but no client asked for it")
        is_early = now_ms <= found.started_ms + found.timeout_ms
        if event.cause == tev.CAUSE_TIME_OUT and is_early:
            age_ms = now_ms - found.started_ms
            self._broken(10, f"{found.name} times out after {age_ms} of {found.timeout_ms} ms")

    def _close(self, event: tev.TransactionEnded, found: ModelId, now_ms: int) -> None:
        del self.by_producer[found.producer_id]
        after = ModelId(
            found.name,
            event.next_producer_id,
            event.next_epoch,
            found.timeout_ms,
            now_ms,
            ended="CompleteCommit" if event.committed else "CompleteAbort",
        )
        self.by_name[found.name] = self.by_producer[event.next_producer_id] = after

    def expired(self, event: tev.TransactionalIdsExpired, now_ms: int, retention_ms: int) -> None:
        """Forget ids that were idle for long enough."""
        for name in event.transactional_ids:
            found = self.by_name.pop(name, None)
            if found is None:
                self._broken(9, f"id {name} expires, and is unknown")
                continue
            del self.by_producer[found.producer_id]
            self._count("transaction.id_expired")
            idle_ms = now_ms - found.updated_ms
            if found.is_open or idle_ms <= retention_ms:
                self._broken(9, f"id {name} expires, {found.state}, {idle_ms} ms after its use")
