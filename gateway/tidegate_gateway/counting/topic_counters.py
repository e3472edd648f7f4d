"""Counts by topic: a list of numbers for each topic that the gateway has served."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeAlias

(
    BYTES_IN,
    MESSAGES_IN,
    PRODUCED,
    FAILED_PRODUCE,
    BYTES_REJECTED,
    BYTES_OUT,
    FETCHED,
    FAILED_FETCH,
) = range(8)
"""The places of a row.  PRODUCED and FETCHED count partitions in requests, as in Kafka."""
PLACES: Final = 8

Row: TypeAlias = list[int]
"""Numbers since the gateway's start."""


def zeros() -> Row:
    """Return a row of zeros."""
    return [0] * PLACES


def total(rows: Iterable[Row]) -> Row:
    """Return the sum of rows."""
    return [sum(column) for column in zip(zeros(), *rows, strict=True)]


def _nobody(topic: str, row: Row) -> None:
    pass


class TopicCounters:
    """See the module's head.

    topics: names of the topics that exist.  rows: by topic; a deleted topic soon loses its row.
    gone: the sum of the rows of deleted topics.  on_gone: called with each deleted topic and its
    row.
    """

    def __init__(self, topics: Collection[str] = ()) -> None:
        self.topics = topics
        self.rows: dict[str, Row] = {}
        self.gone = zeros()
        self.on_gone: Callable[[str, Row], None] = _nobody

    def produced(self, topic: str, size_bytes: int, records: int) -> None:
        """Count a batch that was accepted."""
        row = self.rows.get(topic)
        if row is None:
            row = self._new(topic)
        row[BYTES_IN] += size_bytes
        row[MESSAGES_IN] += records
        row[PRODUCED] += 1

    def produce_failed(self, topic: str, partitions: int) -> None:
        """Count the partitions of a produce request whose answers are errors."""
        self._of(topic)[FAILED_PRODUCE] += partitions

    def rejected(self, topic: str, size_bytes: int) -> None:
        """Count a batch that is too large."""
        self._of(topic)[BYTES_REJECTED] += size_bytes

    def fetched(self, topic: str, size_bytes: int) -> None:
        """Count a partition's records in an answer."""
        row = self._of(topic)
        row[BYTES_OUT] += size_bytes
        row[FETCHED] += 1

    def fetch_failed(self, topic: str) -> None:
        """Count a partition whose answer is an error."""
        self._of(topic)[FAILED_FETCH] += 1

    def whole(self) -> Row:
        """Return the sums over all topics, including deleted topics."""
        return total([self.gone, *self.rows.values()])

    def forget_deleted(self) -> None:
        """Drop the rows of deleted topics."""
        for topic in self.rows.keys() - self.topics:
            row = self.rows.pop(topic)
            self.gone = total([self.gone, row])
            self.on_gone(topic, row)

    def _of(self, topic: str) -> Row:
        return self.rows.get(topic) or self._new(topic)

    def _new(self, topic: str) -> Row:
        if len(self.rows) > 2 * len(self.topics) + 100:
            self.forget_deleted()
        row = self.rows[topic] = zeros()
        return row
