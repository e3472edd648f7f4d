"""The promises of answers about groups and their offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from tidegate_coordination.events.groups import GroupDeleted, OffsetsDeleted

from .moment import Moment

OffsetKey: TypeAlias = tuple[str, bytes, int]
"""Group, topic id, partition."""
EMPTY_GRACE_MS: Final = 600_000


class _Committed(NamedTuple):
    offset: int
    at_ms: int


@dataclass(slots=True)
class _Group:
    """topic: of its only member; None without a member.  empty_since_ms: log time."""

    generation: int
    topic: str | None
    empty_since_ms: int


class OffsetPromises:
    """A group's offset is the last acknowledged one; offsets expire only by Kafka's rules."""

    def __init__(self, moment: Moment, is_staged: Callable[[OffsetKey], bool]) -> None:
        self._moment: Final = moment
        self._is_staged: Final = is_staged
        self._offsets: Final[dict[OffsetKey, _Committed]] = {}
        self._groups: Final[dict[str, _Group]] = {}
        self._known: Final[set[str]] = set()

    def has(self, group_id: str) -> bool:
        """Return whether a group is known."""
        return group_id in self._known

    def committed(self, key: OffsetKey, offset: int, at_ms: int = -1) -> None:
        """Record a commit.  at_ms: its log time; -1: now."""
        now_ms = self._moment.log_time_ms
        self._known.add(key[0])
        self._offsets[key] = _Committed(offset, now_ms if at_ms < 0 else at_ms)

    def changed(self, group_id: str, generation: int, topic: str | None) -> None:
        """Judge the end of a rebalance.  topic: the one that the only member subscribes to."""
        self.in_generation(group_id, generation)
        self._known.add(group_id)
        self._groups[group_id] = _Group(generation, topic, self._moment.log_time_ms)

    def in_generation(self, group_id: str, generation: int) -> None:
        """Judge an accepted write of a generation; -1: the write has no generation."""
        group = self._groups.get(group_id)
        if group is not None and 0 <= generation < group.generation:
            text = f"{group_id} took a write of generation {generation} after {group.generation}"
            self._moment.complain(text)

    def removed(self, key: OffsetKey, topic: str) -> None:
        """Judge an accepted deletion of an offset."""
        group = self._groups.get(key[0])
        if group is not None and group.topic == topic:
            self._moment.complain(f"{key[0]} lost its offset of {topic}, to which it subscribes")
        self._offsets.pop(key, None)

    def deleted(self, group_id: str) -> None:
        """Judge an accepted deletion of a group."""
        self._known.discard(group_id)
        group = self._groups.pop(group_id, None)
        if group is not None and group.topic is not None:
            self._moment.complain(f"{group_id} is deleted, and has a member")
        self.forget(lambda key: key[0] == group_id)

    def expired(self, group_id: str, retention_ms: int, names: Mapping[bytes, str]) -> None:
        """Judge the expiry of a group's offsets by the events of the entry.  names: of topics."""
        for event in self._moment.of_kind(OffsetsDeleted):
            for place in event.partitions if event.group_id == group_id else ():
                self._expired((group_id, *place), retention_ms, names)
        for gone in self._moment.of_kind(GroupDeleted):
            if gone.group_id == group_id:
                self._spent(group_id, retention_ms, names)

    def _spent(self, group_id: str, retention_ms: int, names: Mapping[bytes, str]) -> None:
        own = [key for key in self._offsets if key[0] == group_id]
        for key in own:
            self._expired(key, retention_ms, names)
        group = self._groups.get(group_id)
        now_ms = self._moment.log_time_ms
        if not own and group is not None and now_ms - group.empty_since_ms < EMPTY_GRACE_MS:
            self._moment.complain(f"{group_id} is forgotten too early")
        self.deleted(group_id)

    def _expired(self, key: OffsetKey, retention_ms: int, names: Mapping[bytes, str]) -> None:
        committed = self._offsets.pop(key, None)
        if committed is None or self._is_staged(key):
            self._moment.complain(f"{key} expires, and is staged, or was never committed")
            return
        group = self._groups.get(key[0])
        is_idle = group is not None and group.topic is None
        since_ms = group.empty_since_ms if group is not None and is_idle else committed.at_ms
        is_used = group is not None and group.topic == names.get(key[1], "")
        if is_used or self._moment.log_time_ms - since_ms < retention_ms:
            self._moment.complain(f"{key} expires too early")

    def forget(self, is_gone: Callable[[OffsetKey], bool]) -> None:
        """Record that a topic or a group is deleted."""
        for key in [each for each in self._offsets if is_gone(each)]:
            del self._offsets[key]

    def check(self) -> None:
        """Compare all offsets."""
        state = self._moment.truth
        for group in state.groups:
            for topic_id, partitions in group.offsets.items():
                for partition in partitions:
                    if (group.group_id, topic_id, partition) not in self._offsets:
                        text = f"{group.group_id} has an offset without a commit"
                        self._moment.complain(text)
        for (group_id, topic_id, partition), committed in self._offsets.items():
            found_group = state.groups.get(group_id)
            found = found_group.offset(topic_id, partition) if found_group is not None else None
            if found is None or found.offset != committed.offset:
                text = f"{group_id} committed {committed.offset}, and the state has {found}"
                self._moment.complain(text)
        for group_id, promised in self._groups.items():
            present = state.groups.get(group_id)
            has_member = promised.topic is not None
            if present is None or bool(present.members) != has_member:
                self._moment.complain(f"{group_id} is {present}, and should be {promised}")
