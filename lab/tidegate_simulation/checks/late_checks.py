"""Administrative requests must not act after a later one about the same name was acknowledged.

A request may act while its client waits for it.  A request with an unknown outcome may act until a
later request about the same name is acknowledged.  After that it may never act, because the client
relies on the later answer.  The watch judges each entry when it is appended, for names that one
client at a time administrates.  Such a client announces its requests.
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
        # By name: the changes that are still allowed.  Values of configs, or CREATE and DELETE.
        self._allowed: dict[str, set[str]] = {}
        # By name: how far the log start of each partition may rise; None for any offset.
        self._bounds: dict[str, list[int] | None] = {}

    def begins(self, name: str, what: str) -> None:
        """Allow a change: the client is about to ask for it."""
        self._allowed.setdefault(name, set()).add(what)

    def acknowledged(self, name: str) -> None:
        """Allow no further change: a gateway acknowledged the client's last request."""
        self._allowed[name] = set()

    def begins_to_empty(self, name: str) -> None:
        """Allow any log start: the client is about to ask for the deletion of all records."""
        self._bounds[name] = None

    def emptied(self, name: str) -> None:
        """Allow no higher log start: the request has ended, so later records must stay."""
        self._bounds[name] = self.ends(name)

    def ends(self, name: str) -> list[int]:
        """Return the end offsets of a topic's partitions; none if there is no such topic."""
        return [each.next_offset for each in self._partitions(name)]

    def log_starts(self, name: str) -> list[int]:
        """Return the log starts of a topic's partitions."""
        return [each.log_start for each in self._partitions(name)]

    def is_there(self, name: str) -> bool:
        """Return whether the topic exists."""
        return name in self._state.topics.by_name

    def _partitions(self, name: str) -> list[Partition]:
        topic = self._state.topics.by_name.get(name)
        numbers = topic.partition_numbers if topic is not None else ()
        return [self._state.partitions[number] for number in numbers]

    def after_entry(self, entry: Entry) -> None:
        """Judge an entry that was just appended."""
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
