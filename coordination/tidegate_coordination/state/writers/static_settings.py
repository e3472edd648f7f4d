"""The static settings of gateways that apply to the whole cluster.

The table is keyed by node id and keeps the settings of gateways that ended, too: the pipeline works
while no gateway is live, and the careful values of a gateway must hold while it is down for some
time.  When a gateway writes its settings, those of gateways that ended long ago are removed.  Time
without a live gateway does not count, so a cluster that is stopped, or in which only the pipeline
works, removes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

ALIVE: Final = -1
KEPT_MS: Final = 7 * 86_400_000
MAX_ENDED: Final = 1_000


@dataclass(slots=True)
class Told:
    """settings: only the set ones.  ended_at_ms: log time when the gateway ended, or ALIVE."""

    settings: Mapping[str, str]
    ended_at_ms: int = ALIVE


class StaticSettingsTable:
    """by_node_id: each gateway's settings.  version: rises with every change, for caches."""

    def __init__(self) -> None:
        self.by_node_id: dict[int, Told] = {}
        self.version = 0

    def stale(self, now_ms: int) -> list[int]:
        """Return the node ids of gateways that ended long ago."""
        return [
            node_id
            for node_id, each in self.by_node_id.items()
            if each.ended_at_ms != ALIVE and each.ended_at_ms < now_ms - KEPT_MS
        ]

    def is_due(self, node_id: int, settings: Mapping[str, str], now_ms: int) -> bool:
        """Return whether a gateway's settings changed, or writing them would remove old ones."""
        told = self.by_node_id.get(node_id)
        return told is None or told.settings != settings or bool(self.stale(now_ms))

    def fold_told(self, node_id: int, settings: Mapping[str, str], now_ms: int) -> None:
        """Replace a live gateway's settings, and remove those of gateways that ended long ago."""
        self.by_node_id[node_id] = Told(dict(settings))
        for each in self.stale(now_ms):
            del self.by_node_id[each]
        self.version += 1

    def begin(self, node_id: int) -> None:
        """Mark a gateway as live again; it may still write other settings."""
        told = self.by_node_id.get(node_id)
        if told is not None:
            told.ended_at_ms = ALIVE

    def end(self, node_id: int, now_ms: int) -> None:
        """Note the end of a gateway; above a bound, the oldest is forgotten."""
        told = self.by_node_id.get(node_id)
        if told is None:
            return
        told.ended_at_ms = now_ms
        ended = [(each.ended_at_ms, at) for at, each in self.by_node_id.items() if _has_ended(each)]
        if len(ended) > MAX_ENDED:
            del self.by_node_id[min(ended)[1]]
            self.version += 1

    def pass_over(self, now_ms: int) -> None:
        """Do not count the time since the last gateway ended, in which no gateway could return."""
        ended = [each for each in self.by_node_id.values() if _has_ended(each)]
        passed_ms = now_ms - max((each.ended_at_ms for each in ended), default=now_ms)
        for each in ended:
            each.ended_at_ms += passed_ms

    def end_all(self, now_ms: int) -> None:
        """Note that no gateway is left."""
        for each in self.by_node_id.values():
            if not _has_ended(each):
                each.ended_at_ms = now_ms

    def encode(self) -> object:
        """Return the whole table as builtins."""
        return [
            [node_id, each.ended_at_ms, dict(sorted(each.settings.items()))]
            for node_id, each in sorted(self.by_node_id.items())
        ]

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        self.by_node_id = {node_id: Told(settings, ended) for node_id, ended, settings in rows}


def _has_ended(told: Told) -> bool:
    return told.ended_at_ms != ALIVE
