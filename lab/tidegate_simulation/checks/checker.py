"""Finds anomalies in a history.  Pure: a history in, violations out, without access to a gateway.

The same checker can judge a simulation, real processes, and Apache Kafka; history.py defines a
history.  Offsets may have gaps (control records, compaction): no check demands contiguity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from .checks_back import brought_back
from .checks_etl import processed_once
from .checks_groups import commits, expired_early, generations, static_members
from .checks_liveness import late_wakeups, unfinished
from .checks_malformed import malformed
from .checks_reads import (
    beginnings,
    deleted_reads,
    ends,
    false_errors,
    links,
    log_starts_moved,
    polls,
    seeks,
)
from .checks_records import losses, offsets, refusals, sends, strangers, zombies
from .checks_steady import forced_rejoins
from .checks_transactions import committed_reads, epochs_given, stable_offsets, torn
from .facts import Facts, gather
from .facts import Violation as Violation
from .history import Event

_CHECKS: Final[tuple[Callable[[Facts], Iterator[Violation]], ...]] = (
    offsets,
    strangers,
    losses,
    brought_back,
    sends,
    refusals,
    zombies,
    malformed,
    polls,
    links,
    ends,
    log_starts_moved,
    seeks,
    beginnings,
    deleted_reads,
    false_errors,
    commits,
    generations,
    static_members,
    expired_early,
    forced_rejoins,
    late_wakeups,
    unfinished,
    committed_reads,
    torn,
    stable_offsets,
    epochs_given,
    processed_once,
)


def check(events: Sequence[Event]) -> list[Violation]:
    """Return all violations of a history."""
    facts = gather(events)
    return [violation for each in _CHECKS for violation in each(facts)]
