"""The lines that a copier prints, and how long it made no progress.  No I/O here.

A copier prints a JSON object a line, as Kafka's TransactionalMessageCopier does: `stage`, and
`totalProcessed`, the records whose transactions it committed since it was started.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from faults.stalls import longest_gap

from exactly_once.lives import Life

FOREVER_MS = 1 << 62


@dataclass(slots=True)
class CopierLife(Life):
    """A life of a copier.

    progress: when lines came that showed more commits.  loops: how often it began a transaction, or
    found no records.
    """

    progress: list[int] = field(default_factory=list)
    loops: int = 0
    processed: int = 0

    def take(self, now_ms: int, line: str) -> None:
        """Note a line; skip lines that are not about progress."""
        if not line.startswith("{"):
            return
        said = json.loads(line)
        self.loops += said["stage"] == "ProcessLoop"
        if said["totalProcessed"] > self.processed:
            self.processed = said["totalProcessed"]
            self.progress.append(now_ms)


def stall_after(life: CopierLife, hurt_ms: int, until_ms: int) -> int | None:
    """Return the longest time without a commit from `hurt_ms` to `until_ms`, in ms.

    None for a client that had not committed before.  The time after its last commit does not count:
    the client may have been killed, or have had nothing to do.
    """
    if not life.progress or life.progress[0] > hurt_ms:
        return None
    until_ms = min(until_ms, life.progress[-1])
    return longest_gap(life.progress, hurt_ms, until_ms) if until_ms > hurt_ms else None


def stalls(lives: Iterable[CopierLife], hurt_ms: Sequence[int]) -> list[int]:
    """Return the stall of each life between each of these times and the next, shortest first."""
    windows = list(pairwise([*hurt_ms, FOREVER_MS]))
    found = [stall_after(life, *each) for life in lives for each in windows]
    return sorted(each for each in found if each is not None)


def gaps(lives: Iterable[CopierLife]) -> list[int]:
    """Return the times between commits in each life, in ms, shortest first."""
    return sorted(after - before for life in lives for before, after in pairwise(life.progress))


def middle(sorted_numbers: Sequence[int]) -> int:
    """Return the median; 0 if there are no numbers."""
    return sorted_numbers[len(sorted_numbers) // 2] if sorted_numbers else 0
