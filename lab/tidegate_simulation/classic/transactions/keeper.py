"""The task of a transactional id: it aborts after the time-out, and writes the markers of an end.

The task runs from the first added partition until the transaction is complete, whichever broker
coordinates.  While no broker coordinates, it waits.
"""

from __future__ import annotations

import math
from typing import Final

import trio

from ..broker_state import BrokerState
from ..model_topics import NO_LEADER
from ..model_transaction import ModelTransaction, TransactionState
from .access import circumstances
from .ends import abort_and_fence
from .markers import settle, write_markers

_MS: Final = 1000
_RETRY_SECONDS: Final = 0.2


def keep(broker: BrokerState, transaction: ModelTransaction) -> None:
    """Wake the transaction's task after a step; start one if there is none."""
    if transaction.is_prepared:
        transaction.not_before = broker.now() + _pause(broker)
    if transaction.is_kept:
        broker.signals.notify(transaction)
    else:
        transaction.is_kept = True
        broker.nursery.start_soon(_keep, broker, transaction)


def _pause(broker: BrokerState) -> float:
    cluster = broker.cluster
    return cluster.rng.uniform(0, cluster.transaction_settings.marker_seconds)


async def _keep(broker: BrokerState, transaction: ModelTransaction) -> None:
    try:
        while (due := _due(broker, transaction)) is not None:
            with broker.signals.watch([transaction]) as changed, trio.move_on_at(due):
                await changed.wait()
            if _due(broker, transaction) == due and broker.now() >= due:
                _act(broker, transaction)
    finally:
        transaction.is_kept = False


def _due(broker: BrokerState, transaction: ModelTransaction) -> float | None:
    """Return when to act; None while there is nothing to do."""
    if transaction.is_prepared:
        return transaction.not_before
    if transaction.state is not TransactionState.ONGOING:
        return None
    ends = (transaction.started_ms + transaction.timeout_ms - broker.start_ms) / _MS
    interval = broker.cluster.transaction_settings.abort_interval_seconds
    return max(transaction.not_before, (math.floor(ends / interval) + 1) * interval)


def _act(broker: BrokerState, transaction: ModelTransaction) -> None:
    transaction.not_before = broker.now() + _RETRY_SECONDS + _pause(broker)
    coordinator = broker.cluster.coordinator_of(transaction.transactional_id)
    if coordinator == NO_LEADER or transaction.is_loading:
        return
    if transaction.state is TransactionState.ONGOING:
        abort_and_fence(transaction, circumstances(broker))
        transaction.not_before = broker.now() + _pause(broker)
    else:
        _write(broker, transaction)


def _write(broker: BrokerState, transaction: ModelTransaction) -> None:
    cluster = broker.cluster
    for partition in write_markers(cluster, transaction, broker.now(), broker.now_ms()):
        broker.appended(partition)
    settle(cluster, transaction)
