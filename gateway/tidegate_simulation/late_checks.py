"""Administrative requests must not act after a later one about the same name was acknowledged.

A request may act while its client waits for it.  One whose outcome its client does not know may
act until a later one about the same name is acknowledged; from there on never again, for the client
relies on what it was told.  Looked at in the moment an entry is appended, for names that one client
at a time administrates; such a client says what it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate_coordination import events as ev
from tidegate_coordination.entries import Entry
from tidegate_coordination.state.cluster import ClusterState

CREATE: Final = "create"
DELETE: Final = "delete"
_KIND: Final = "acted late"


class LatenessWatch:
    """See the module's head.

    state: holds each entry when after_entry() is called.
    """

    def __init__(self, state: ClusterState, complain: Callable[[str, str], None]) -> None:
        self._state = state
        self._complain = complain
        self._names: dict[bytes, str] = {}
        # By name: what may still be done to it.  Values of configs, or CREATE and DELETE.
        self._allowed: dict[str, set[str]] = {}
        # By name of a topic of one partition: how far its log start may rise; None while it may.
        self._bounds: dict[str, int | None] = {}

    def begins(self, name: str, what: str) -> None:
        """Its client is about to ask for something."""
        self._allowed.setdefault(name, set()).add(what)

    def acknowledged(self, name: str) -> None:
        """What its client asked for last was acknowledged: nothing else may come any more."""
        self._allowed[name] = set()

    def begins_to_empty(self, name: str) -> None:
        """Its client is about to ask that all records go."""
        self._bounds[name] = None

    def emptied(self, name: str) -> None:
        """Its client was answered, or waits no more: what is written from here on must stay."""
        topic = self._state.topics.by_name.get(name)
        if topic is not None:
            [number] = topic.partition_numbers
            self._bounds[name] = self._state.partitions[number].next_offset

    def after_entry(self, entry: Entry) -> None:
        """Judge an entry that was appended just now."""
        for event in entry.events:
            match event:
                case ev.TopicCreated():
                    self._names[event.topic_id] = event.name
                    self._judge(event.name, CREATE)
                case ev.TopicDeleted():
                    self._judge(self._names[event.topic_id], DELETE)
                case ev.ConfigsSet():
                    self._judge(event.resource_name, *sorted(event.configs.values()))
                case ev.LogStartsMoved():
                    self._judge_starts()
                case _:
                    pass

    def _judge(self, name: str, *done: str) -> None:
        allowed = self._allowed.get(name)
        if allowed is None:
            return
        late = [each for each in done if each not in allowed]
        if late:
            self._complain(_KIND, f"entry {self._state.position}: {name}: {' '.join(late)}")

    def _judge_starts(self) -> None:
        for name, bound in self._bounds.items():
            topic = self._state.topics.by_name.get(name)
            if topic is None or bound is None:
                continue
            log_start = self._state.partitions[topic.partition_numbers[0]].log_start
            if log_start > bound:
                text = f"{name} begins at {log_start}, and was to be emptied up to {bound}"
                self._complain(_KIND, f"entry {self._state.position}: {text}")
