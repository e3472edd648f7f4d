"""A source as tasks read it: brokers, folders of their logs, or tiered storage."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from .work import ImportUnit


class Portion(NamedTuple):
    """Batches of a partition, in the order of offsets; the last may be cut short.

    records: empty if the source has, or returns, no batch from the position on.
    """

    records: memoryview


class OffsetGone(Exception):
    """The source's log begins above the position, or ends below it."""


class HistoryDiffers(Exception):
    """The source has other records below the position.  The text says so, for a person."""


class SourceFailed(Exception):
    """The source cannot be read now.  The text says why, for a person."""


class Reader(Protocol):
    """Reads units."""

    async def read(self, unit: ImportUnit, position: int, epoch: int) -> Portion:
        """Return whole batches, from the one that holds the position or the next one on.

        A batch that ends below the position may come first.  epoch: see FetchPartition's
        last_fetched_epoch; -1 if it is not known.

        Raises:
          OffsetGone, HistoryDiffers, SourceFailed: see these classes.
        """
        ...


class Origin(Protocol):
    """Opens readers in a task's process.  An origin is pickled."""

    def opened(self) -> AbstractAsyncContextManager[Reader]:
        """Connect, or open files."""
        ...
