"""What a copier prints, and how long it stood still.  No I/O here.

A copier prints a JSON object a line, as Kafka's TransactionalMessageCopier does: `stage`, and
`totalProcessed`, the records whose transactions it committed since it was started.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Life:
    """One process of a client, from its start to its end.

    ended_ms, code: None while it runs.  was_ended: by us.  progress: times at which it had
    committed more.  loops: how many transactions it has begun, or looked for records in vain.
    """

    began_ms: int
    ended_ms: int | None = None
    code: int | None = None
    was_ended: bool = False
    progress: list[int] = field(default_factory=list)
    loops: int = 0
    processed: int = 0

    def take(self, now_ms: int, line: str) -> None:
        """Note a line; those that are no progress are skipped."""
        if not line.startswith("{"):
            return
        said = json.loads(line)
        self.loops += said["stage"] == "ProcessLoop"
        if said["totalProcessed"] > self.processed:
            self.processed = said["totalProcessed"]
            self.progress.append(now_ms)


def stall_after(life: Life, hurt_ms: int) -> int | None:
    """Return how long a client that worked before `hurt_ms` took to commit again, in ms.

    None: it did not work yet, or did not live to commit again.
    """
    place = bisect_right(life.progress, hurt_ms)
    if place in (0, len(life.progress)):
        return None
    return life.progress[place] - hurt_ms


def stalls(lives: Iterable[Life], hurt_ms: Sequence[int]) -> list[int]:
    """Return the stalls of all clients after each of these times, shortest first."""
    found = [stall_after(life, each) for life in lives for each in hurt_ms]
    return sorted(each for each in found if each is not None)


def gaps(lives: Iterable[Life]) -> list[int]:
    """Return the times between commits in each life, in ms, shortest first."""
    return sorted(
        after - before
        for life in lives
        for before, after in zip(life.progress, life.progress[1:], strict=False)
    )


def middle(sorted_numbers: Sequence[int]) -> int:
    """Return the median; 0 of none."""
    return sorted_numbers[len(sorted_numbers) // 2] if sorted_numbers else 0
