"""Checks that gateways remove only records that the gateways' settings allow to remove.

The watch knows the settings and the start of each incarnation from the simulator, not from the
gateway's announcements.  It checks topics that have no settings, and of which no client deletes
records (static_keepers.py).  A removal that was planned before a gateway started may still be
appended, so a gateway's settings count some time after its start.  If a gateway ends before it has
written its settings to the log, they do not count: it has not served, and no other gateway knows
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from tidegate_coordination.events.cluster import (
    GatewayExpired,
    GatewayRegistered,
    LogStartsMoved,
    SegmentsPublished,
    StaticSettingsTold,
)
from tidegate_coordination.events.entries import AnyEvent
from tidegate_coordination.state.cluster import ClusterState

from ..plans.settings_plan import LAG, RETENTION, SettingsPlan

TOPICS: Final = {"inherits": RETENTION, "inherits-lag": LAG}
"""Topic -> the gateways' setting that says which of its records may be removed."""
SETTLED_SECONDS: Final = 10.0


class SettingsWatch:
    """See the module's head.  It looks at each entry before it is folded."""

    def __init__(self, plan: SettingsPlan, complain: Callable[[str, str], None]) -> None:
        self._plan = plan
        self._complain = complain
        self._began: dict[int, float] = {}
        self._told: set[int] = set()

    def of_life(self, state: ClusterState, event: AnyEvent) -> None:
        """Record that a gateway has started, has ended, or has written its settings."""
        match event:
            case GatewayRegistered(node_id=node_id) if node_id in self._plan.static:
                self._began.setdefault(node_id, trio.current_time())
            case StaticSettingsTold(incarnation=incarnation) if incarnation in state.gateways.live:
                self._told.add(state.gateways.live[incarnation].node_id)
            case GatewayExpired(incarnation=incarnation) if incarnation in state.gateways.live:
                node_id = state.gateways.live[incarnation].node_id
                if node_id not in self._told:
                    self._began.pop(node_id, None)
            case _:
                pass

    def careful(self, name: str) -> list[int]:
        """Return the gateways whose settings keep all records and which began some time ago."""
        before = trio.current_time() - SETTLED_SECONDS
        return [
            node_id
            for node_id, began in self._began.items()
            if began <= before and self._plan.is_careful(node_id, name)
        ]

    def cut(self, state: ClusterState, event: LogStartsMoved) -> None:
        """Check that the settings allow a removal by retention."""
        for number, _ in event.moves:
            self._removed(state, number, RETENTION)

    def compacted(self, state: ClusterState, event: SegmentsPublished) -> None:
        """Check that the settings allow compaction."""
        for each in event.partitions:
            if each.removed:
                self._removed(state, each.partition, LAG)

    def _removed(self, state: ClusterState, number: int, name: str) -> None:
        partition = state.partitions.get(number)
        topic = state.topics.by_id.get(partition.topic_id) if partition is not None else None
        if topic is None or TOPICS.get(topic.name) != name:
            return
        keepers = self.careful(name)
        if keepers:
            text = f"records of {topic.name} are removed, where gateways {keepers} keep all"
            self._complain("removed too early", text)
