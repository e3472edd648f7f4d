"""The losses of transactions that a restore may cause, and those that it must not.  No I/O here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from histories.checks import Anomaly
from histories.history import History, Transaction


@dataclass(frozen=True, slots=True)
class Lost:
    """The time of the log's lost end: from just before the backup until the log was restored."""

    backup_ms: int
    restored_ms: int

    def holds(self, at_ms: int) -> bool:
        """Return whether the end of a transaction that was acknowledged then may be lost."""
        return self.backup_ms <= at_ms < self.restored_ms


def forgive(history: History, lost: Lost) -> None:
    """Remove from a history all promises that the restored log need not keep.

    A commit in the lost end may be lost, but only as a whole.  Readers may have got offsets that
    the restored log gave to other records.
    """
    history.passes.clear()
    history.stable.clear()
    history.records.conflicts.clear()
    for each in history.transactions.values():
        if lost.holds(each.ended_ms):
            each.places = ()
            if each.committed:
                each.ended_ms, each.is_unknown = -1, True


def is_open_at(each: Transaction, at_ms: int) -> bool:
    """Return whether a transaction was open at a time, as far as its client knew."""
    has_ended = 0 <= each.ended_ms <= at_ms
    return 0 <= each.begun_ms <= at_ms and not has_ended


def zombies(histories: Sequence[History], lost: Lost) -> Iterator[Anomaly]:
    """Yield the transactions from before the restore that a client could still commit."""
    for history in histories:
        for name, each in history.transactions.items():
            began_before = 0 <= each.begun_ms < lost.restored_ms
            if began_before and each.committed and each.ended_ms >= lost.restored_ms:
                text = f"{name} began before the restore, and was committed after it"
                yield Anomaly("zombie", text, name)
