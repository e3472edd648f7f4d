"""Judges each deletion of an object when it happens.  The rules:

- No run in the object is live, or kept after a skip.
- The object has been dead for the grace period, so that a reader with an earlier plan can read it.
- If the object was superseded and the log is backed up, a copy of the log has the entry that freed
  it: after a restore from the newest copy no gateway reads a deleted object.

Objects that no entry names are not checked: no reader can miss them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate_coordination.backup.copies import parse_entries_key, parse_snapshot_key
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_storage.objects.keys import backup_prefix

Complain = Callable[[str, str], None]


class DeletionWatch:
    """See the module's head.

    grace_ms: in log time.  has_backups: whether the log is copied at all.
    """

    def __init__(self, complain: Complain, *, grace_ms: int, has_backups: bool) -> None:
        self._complain = complain
        self._grace_ms = grace_ms
        self._has_backups = has_backups
        self._state = ClusterState()
        self._died_at: dict[int, int] = {}
        self._copied = 0

    def after_entry(self, state: ClusterState) -> None:
        """Record the state after an entry."""
        self._state = state
        for number in state.objects.dead:
            self._died_at.setdefault(number, state.position)

    def stored(self, key: str) -> None:
        """Record a copy of the log."""
        prefix = backup_prefix(self._state.cluster_id, self._state.timeline)
        if not key.startswith(prefix):
            return
        entries, snapshot = parse_entries_key(prefix, key), parse_snapshot_key(prefix, key)
        if entries is not None:
            self._copied = max(self._copied, entries.last)
        if snapshot is not None and snapshot[1]:
            self._copied = max(self._copied, snapshot[0].position)

    def deleted(self, keys: Sequence[str]) -> None:
        """Judge a deletion that just happened."""
        wanted = set(keys)
        for number in sorted(used_objects(self._state)):
            if self._key(number) in wanted:
                self._complain("not stored", f"object {number} was deleted; runs in it are needed")
        for number, since_ms in self._state.objects.dead.items():
            if self._key(number) in wanted:
                self._judge(number, since_ms)

    def _judge(self, number: int, since_ms: int) -> None:
        dead_ms = self._state.log_time_ms - since_ms
        if dead_ms < self._grace_ms:
            self._complain("deleted too soon", f"object {number}, dead for {dead_ms} ms")
        is_needed = self._has_backups and self._state.objects.is_superseded(number)
        if is_needed and self._died_at[number] > self._copied:
            died_at = self._died_at[number]
            text = f"object {number} died in entry {died_at}, the log is copied to {self._copied}"
            self._complain("deleted before the copy", text)

    def _key(self, number: int) -> str:
        return object_key(self._state, self._state.objects.name(number))


def live_objects(state: ClusterState) -> set[int]:
    """Return the numbers of the objects that hold a live run."""
    return {
        row.object_number
        for partition in state.partitions.values()
        for at in range(len(partition.runs))
        if not (row := partition.runs[at]).is_marker
    }


def used_objects(state: ClusterState) -> set[int]:
    """Return the numbers of the objects that hold a live run, or one that is kept after a skip."""
    return {
        row.object_number
        for partition in state.partitions.values()
        for row in partition.rows()
        if not row.is_marker
    }
