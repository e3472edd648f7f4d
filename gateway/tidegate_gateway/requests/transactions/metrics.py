"""Metrics of transactions.

A scrape looks at open transactions only, since there may be many transactional ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from tidegate_coordination.events import transactions as tev
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.transactions.ends import End
from tidegate_coordination.state.transactions.totals import OpenTotals, open_totals
from tidegate_runtime.prometheus import counter, gauge

from ...transactions.steps import TransactionSteps
from ...upkeep.transaction_watch import TransactionWatch

# As in Kafka: a transaction is late once it is open for this much longer than the longest timeout.
LATE_BUFFER_MS: Final = 300_000
_CAUSES: Final = {
    tev.CAUSE_CLIENT: "client",
    tev.CAUSE_TIME_OUT: "time-out",
    tev.CAUSE_INITIALISED: "init",
    tev.CAUSE_OPERATOR: "operator",
    tev.CAUSE_RESTORED: "restore",
}
_ENDS: Final = (End(True, tev.CAUSE_CLIENT), *(End(False, cause) for cause in _CAUSES))


def totals_of(state: ClusterState, settings: ClusterSettings) -> OpenTotals:
    """Return the sums over the open transactions of the cluster."""
    longest_ms = settings.time("transaction.max.timeout.ms") + LATE_BUFFER_MS
    return open_totals(state.transactions, state.log_time_ms - longest_ms)


def oldest_seconds(state: ClusterState, totals: OpenTotals) -> float:
    """Return the age of the oldest open transaction, in log time; 0 if none is open."""
    age_ms = state.log_time_ms - totals.oldest_ms if totals.transactions else 0
    return max(age_ms, 0) / 1000


def transaction_metrics(
    state: ClusterState, settings: ClusterSettings, watch: TransactionWatch, steps: TransactionSteps
) -> Iterator[Metric]:
    """Yield the metrics of transactions; all but the last cover the whole cluster."""
    totals, table = totals_of(state, settings), state.transactions
    for name, help_text, value in (
        ("tidegate_transactional_ids", "Transactional ids", len(table)),
        ("tidegate_transactions_open", "Open transactions", totals.transactions),
        (
            "tidegate_transaction_oldest_seconds",
            "Age of the oldest open transaction, in log time; 0: none is open",
            oldest_seconds(state, totals),
        ),
        (
            "kafka_server_replicamanager_partitionswithlatetransactionscount",
            "Partitions with a transaction that should have timed out",
            totals.late_partitions,
        ),
        (
            "tidegate_transaction_staged_offsets",
            "Group offsets that wait for the end of a transaction",
            totals.staged_offsets,
        ),
    ):
        yield gauge(name, help_text, value)
    yield _ended(watch)
    yield counter(
        "tidegate_transactions_concurrent",
        "EndTxn requests refused, as their producer's next transaction had begun",
        steps.counters.concurrent,
    )


def _ended(watch: TransactionWatch) -> Metric:
    family = CounterMetricFamily(
        "tidegate_transactions_ended",
        "Transactions of the cluster that ended since this gateway's start",
        labels=["result", "cause"],
    )
    for end in _ENDS:
        result = "committed" if end.committed else "aborted"
        family.add_metric([result, _CAUSES[end.cause]], watch.count(end))
    return family
