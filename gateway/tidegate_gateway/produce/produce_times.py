"""The times of produce requests, and of the stages of the WAL objects with their batches.

The time of a request runs from its last byte to its answer.  The stages have one sample for each
WAL object.  So the sum of their means is about the time of an object's first request.

    queue   from the first batch until the object is sealed
    seal    to make the object's bytes
    upload  to store it, with repeats
    commit  from then until the outcome is known: objects before it, and the metadata log

Times are on trio's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidegate_runtime.histograms import Histogram

STAGES: Final = ("queue_ms", "seal_ms", "upload_ms", "commit_ms")


class ObjectTimes(NamedTuple):
    """When a WAL object began to be sealed, was sealed, and was stored."""

    sealing_at: float
    sealed_at: float
    stored_at: float

    def stages_ms(self, received_at: float, now: float) -> dict[str, int]:
        """Return the stages of a request whose outcome is known now; their sum is its time."""
        # Each end is rounded once, as time since the request came, so the stages add up to the
        # rounded time.
        ends = [round((each - received_at) * 1000) for each in (*self, now)]
        stages = zip(STAGES, [0, *ends[:-1]], ends, strict=True)
        return {name: end - began for name, began, end in stages}


@dataclass(slots=True)
class ProduceTimes:
    """See the module's head.

    now: the time of the present outcomes, which all requests share instead of reading the clock.
    of_object: the times of the object with these outcomes if it was stored; otherwise None. remote:
    upload and commit together.  puts: single PUTs.
    """

    total: Histogram = field(default_factory=Histogram)
    queue: Histogram = field(default_factory=Histogram)
    seal: Histogram = field(default_factory=Histogram)
    upload: Histogram = field(default_factory=Histogram)
    commit: Histogram = field(default_factory=Histogram)
    remote: Histogram = field(default_factory=Histogram)
    puts: Histogram = field(default_factory=Histogram)
    now: float = 0.0
    of_object: ObjectTimes | None = None
