"""The counters of the WAL writer."""

from __future__ import annotations

from dataclasses import dataclass, field

from .produce_times import ProduceTimes


@dataclass(slots=True)
class WalCounters:
    """The writer's metrics.  Times are of the last success, on trio's clock; None before.

    inlined_objects, inlined_bytes: of objects that went into the metadata log instead.
    left_batches: batches that were stored but not committed, since their clients had disconnected,
    or send an earlier batch again.
    """

    objects: int = 0
    bytes: int = 0
    batches: int = 0
    inlined_objects: int = 0
    inlined_bytes: int = 0
    abandoned: int = 0
    left_batches: int = 0
    put_retries: int = 0
    put_seconds: float = 0.0
    stored_at: float | None = None
    committed_at: float | None = None
    times: ProduceTimes = field(default_factory=ProduceTimes)
