"""Whether some clients of a run send malformed batches.  Drawn apart from all other plans.

malformed.*    each kind of malformed batch that a gateway refused
threads.none   the machine had no thread for the records of a batch
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

SHARE: Final = 0.15
PREFIX: Final = "malformed."
NO_THREAD: Final = "threads.none"
MAX_DECOMPRESSED_BYTES: Final = 100_000
_NO_THREAD_SHARES: Final = (0.0, 0.05, 0.3)


@dataclass(frozen=True, slots=True)
class MalformedPlan:
    """is_on: a client sends malformed batches.  no_thread: share of the jobs without a thread."""

    is_on: bool = False
    no_thread: float = 0.0

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of all gateways: a low bound, so that a bomb is small."""
        return {"record.decompressed.max.bytes": str(MAX_DECOMPRESSED_BYTES)} if self.is_on else {}


def draw_malformed(seed: int) -> MalformedPlan:
    """Draw the plan."""
    # The number in this text keeps the draws of the seeds that tests replay.
    rng = Random(f"{seed}/malformed batches 11")
    is_on, no_thread = rng.random() < SHARE, rng.choice(_NO_THREAD_SHARES)
    return MalformedPlan(is_on, no_thread) if is_on else MalformedPlan()
