"""Administrative requests must not act after a later one about the same name was acknowledged.

A request may act while its client waits for it.  One whose outcome its client does not know may
act until a later one about the same name is acknowledged; from there on never again, for the client
relies on what it was told.  Looked at in the moment an entry is appended, for names that one client
at a time administrates; such a client says what it does.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import gt
from typing import Final

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition

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
        # By name: how far the log start of each partition may rise; None while it may.
        self._bounds: dict[str, list[int] | None] = {}

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
        self._bounds[name] = self.ends(name)

    def ends(self, name: str) -> list[int]:
        """Return where the partitions of a topic end; none where there is no such topic."""
        return [each.next_offset for each in self._partitions(name)]

    def log_starts(self, name: str) -> list[int]:
        """Return where they begin."""
        return [each.log_start for each in self._partitions(name)]

    def is_there(self, name: str) -> bool:
        """Tell whether there is such a topic."""
        return name in self._state.topics.by_name

    def _partitions(self, name: str) -> list[Partition]:
        topic = self._state.topics.by_name.get(name)
        numbers = topic.partition_numbers if topic is not None else ()
        return [self._state.partitions[number] for number in numbers]

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
            starts = self.log_starts(name)
            if bound is not None and any(map(gt, starts, bound)):
                text = f"{name} begins at {starts}, and was to be emptied up to {bound}"
                self._complain(_KIND, f"entry {self._state.position}: {text}")
