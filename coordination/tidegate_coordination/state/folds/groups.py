"""Folds of groups, each with its records in `__consumer_offsets`."""

from __future__ import annotations

from typing import Final

from ...events import groups as gev
from ..tables import StateTables
from ..topics import Topic
from .transactions import TransactionFolds


class GroupFolds:
    """Folds the events of groups, for ClusterState.apply()."""

    def __init__(self, state: StateTables, transactions: TransactionFolds) -> None:
        self._state: Final = state
        self._groups: Final = state.groups
        self._records: Final = state.offsets_topic
        self._transactions: Final = transactions

    def fold_changed(self, event: gev.GroupChanged) -> None:
        """A group has another state."""
        self._state.keep_groups((event.group_id,))
        self._groups.fold_group_changed(event, self._state.log_time_ms)
        self._records.group_changed(event.group_id, self._state.log_time_ms)

    def fold_committed(self, event: gev.OffsetsCommitted) -> None:
        """A group has committed offsets."""
        self._state.keep_groups((event.group_id,))
        self._groups.fold_offsets_committed(event, self._state.log_time_ms)
        self._records.committed(event.group_id, event.offsets)
        self._transactions.offsets_committed(event)

    def fold_offsets_deleted(self, event: gev.OffsetsDeleted) -> None:
        """A group forgets offsets, also those that are staged."""
        self._state.keep_groups((event.group_id,))
        committed = self._transactions.committed_of(event)
        self._groups.fold_offsets_deleted(committed, self._state.log_time_ms)
        self._records.offsets_deleted(event.group_id, committed.partitions, self._state.log_time_ms)
        self._transactions.offsets_deleted(event.group_id, event.partitions)

    def fold_deleted(self, event: gev.GroupDeleted) -> None:
        """A group is deleted."""
        self._state.keep_groups((event.group_id,))
        self._records.group_deleted(event.group_id, self._state.log_time_ms)
        self._groups.fold_group_deleted(event, self._state.log_time_ms)
        self._transactions.offsets_deleted(event.group_id)
        self._state.claims.forget(f"group/{event.group_id}")

    def begin_offsets_topic(self) -> None:
        """Record all groups in `__consumer_offsets`, if that topic exists."""
        self._state.keep_groups([each.group_id for each in self._groups])
        self._records.begin(self._state.metadata_version, self._state.log_time_ms)

    def topic_deleted(self, topic: Topic) -> None:
        """The offsets of a topic are removed; it may be `__consumer_offsets` itself."""
        group_ids = self._groups.with_offsets_of(topic.topic_id)
        self._state.keep_groups(group_ids)
        self._records.end(topic)
        self._records.topic_deleted(topic, group_ids, self._state.log_time_ms)
        self._groups.drop_topic(topic.topic_id)
