"""Counts the anomalies of a run.  No I/O here.

Version 1 of the transaction protocol does not bump the epoch at the end of a transaction.  So a
request that a link held may join the next transaction (KIP-890).  Anomalies of version 1 count
separately if they occur while requests of clients are held or repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from histories import checks
from histories.checks import Anomaly
from histories.evidence import Evidence
from histories.history import Transaction
from histories.transfers import family_of, transfers

LATE_MS: Final = 30_000
"""How long after a fault a request that it held may do harm."""
MAX_EXAMPLES: Final = 40
MAX_OF_KIND: Final = 5

_CHECKS: Final = (
    checks.ends,
    checks.acknowledged_records,
    checks.sightings,
    checks.doubles,
    checks.passes,
    checks.stable_offsets,
    checks.unseen,
)


@dataclass(slots=True)
class Verdict:
    """Anomalies by kind.  apart: the ones that version 1 of the transaction protocol permits."""

    anomalies: Counter[str] = field(default_factory=Counter)
    apart: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.anomalies.total()

    def add(self, anomaly: Anomaly, *, is_apart: bool) -> None:
        """Count an anomaly."""
        counter = self.apart if is_apart else self.anomalies
        counter[anomaly.kind] += 1
        if counter[anomaly.kind] <= MAX_OF_KIND and len(self.examples) < MAX_EXAMPLES:
            mark = " (apart)" if is_apart else ""
            self.examples.append(f"{anomaly.kind}{mark}: {anomaly.text}")


def judge(
    evidence: Evidence,
    orders: Mapping[str, Collection[str]],
    version_1: Collection[str] = (),
) -> Verdict:
    """Return all anomalies. version_1: families whose clients speak version 1 of the protocol."""
    verdict = Verdict()
    for each in _anomalies(evidence, orders):
        verdict.add(each, is_apart=_is_permitted(evidence, each, version_1))
    return verdict


def _anomalies(evidence: Evidence, orders: Mapping[str, Collection[str]]) -> Iterator[Anomaly]:
    yield from chain.from_iterable(check(evidence) for check in _CHECKS)
    yield from transfers(evidence.committed, orders)


def _is_permitted(evidence: Evidence, anomaly: Anomaly, version_1: Collection[str]) -> bool:
    name = anomaly.transaction
    if not name or family_of(name) not in version_1:
        return False
    of = evidence.transactions.get(name, Transaction())
    at_ms = max(of.asked_ms, of.ended_ms, evidence.first_seen_ms.get(name, -1))
    return any(
        each.hurts_clients and each.begin_ms <= at_ms <= each.end_ms + LATE_MS
        for each in evidence.windows
    )
