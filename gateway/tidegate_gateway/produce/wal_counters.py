"""The counters of the WAL writer."""

from __future__ import annotations

from dataclasses import dataclass, field

from .produce_times import ProduceTimes


@dataclass(slots=True)
class WalCounters:
    """The writer's figures for metrics.  Times are trio's, of the last success; None: none yet.

    left_batches: stored and not written, as their clients had left, or send an earlier batch again.
    """

    objects: int = 0
    bytes: int = 0
    batches: int = 0
    abandoned: int = 0
    left_batches: int = 0
    put_retries: int = 0
    put_seconds: float = 0.0
    stored_at: float | None = None
    committed_at: float | None = None
    times: ProduceTimes = field(default_factory=ProduceTimes)
