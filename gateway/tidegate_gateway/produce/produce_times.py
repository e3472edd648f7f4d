"""How long produce requests take, and the stages of the objects that hold their batches.

The time of a request goes from its last byte to its answer.  The stages are of WAL objects, a
sample for each: so the sum of their means is about the time of the first request of an object.

    queue   from the first batch until the object is sealed
    seal    to make the object's bytes
    upload  to store it, with repeats
    commit  from then until the outcome is known: objects before it, and the metadata log

Times are trio's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate_runtime.histograms import Histogram


@dataclass(slots=True)
class ProduceTimes:
    """See the module's head.

    now: when the outcomes that are being given were known; a request costs no clock of its own.
    remote: upload and commit together; puts: single PUTs.
    """

    total: Histogram = field(default_factory=Histogram)
    queue: Histogram = field(default_factory=Histogram)
    seal: Histogram = field(default_factory=Histogram)
    upload: Histogram = field(default_factory=Histogram)
    commit: Histogram = field(default_factory=Histogram)
    remote: Histogram = field(default_factory=Histogram)
    puts: Histogram = field(default_factory=Histogram)
    now: float = 0.0
