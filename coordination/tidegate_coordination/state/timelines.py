"""Timelines: each is one history of the metadata log.  A restore or a repair opens the next.

The objects of an earlier timeline stay where they were stored, so the state keeps the timeline of
each former incarnation.  While a log is being restored no gateway may use it.  Meanwhile salvage
commits the objects that former incarnations stored and the restored state does not know, so the WAL
ids of those incarnations stay open until the salvage ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .broken import expect


class TimelineTable:
    """is_restoring: between TimelineOpened and SalvageEnded.

    salvageable: former incarnations whose objects may still be committed.  ended: the timeline that
    the present one continues.
    """

    def __init__(self) -> None:
        self.is_restoring = False
        self.restore_id = ""
        self.ended = 0
        self.salvageable: set[int] = set()
        self._former: dict[int, int] = {}

    def of(self, incarnation: int, present: int) -> int:
        """Return the timeline in which an incarnation stored its objects."""
        return self._former.get(incarnation, present)

    def fold_opened(self, restore_id: str, ended: int, homes: Iterable[int]) -> None:
        """Note that all incarnations so far lived in timeline `ended` or earlier."""
        for incarnation in homes:
            self._former.setdefault(incarnation, ended)
        self.is_restoring = True
        self.restore_id = restore_id
        self.ended = ended

    def fold_found(self, incarnation: int, timeline: int) -> None:
        """Add an incarnation that started after the backup."""
        expect(self.is_restoring, f"incarnation {incarnation} found while nothing is restored")
        self._former[incarnation] = timeline
        self.salvageable.add(incarnation)

    def fold_ended(self) -> None:
        """End the salvage: no further object will be recovered."""
        expect(self.is_restoring, "the end of a restore that never began")
        self.is_restoring = False
        self.salvageable = set()

    def encode(self) -> object:
        """Return the whole table as builtins."""
        return {
            "restoring": self.is_restoring,
            "restore_id": self.restore_id,
            "ended": self.ended,
            "salvageable": sorted(self.salvageable),
            "former": [list(each) for each in sorted(self._former.items())],
        }

    def decode(self, table: Mapping[str, Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        self.is_restoring = table["restoring"]
        self.restore_id = table["restore_id"]
        self.ended = table["ended"]
        self.salvageable = set(table["salvageable"])
        self._former = {incarnation: timeline for incarnation, timeline in table["former"]}
