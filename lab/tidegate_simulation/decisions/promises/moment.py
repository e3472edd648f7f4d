"""The moment at which answers are judged: an entry was just folded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, TypeVar

from tidegate_coordination.state.cluster import ClusterState

Kind = TypeVar("Kind")

Place: TypeAlias = tuple[bytes, int]
"""A partition: topic id and index."""


class Moment:
    """truth: the fold of all entries.  events: of the last one.  complain: records a violation."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self.truth = ClusterState()
        self.events: tuple[Any, ...] = ()
        self.complain: Final = complain

    @property
    def log_time_ms(self) -> int:
        """Return the log time of the last entry."""
        return self.truth.log_time_ms

    def of_kind(self, kind: type[Kind]) -> Iterator[Kind]:
        """Yield the events of a kind in the last entry."""
        return (each for each in self.events if isinstance(each, kind))
