"""The feature of transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ...feature import Feature, Ground, Row, Task
from ...groups.group_manager import GroupManager
from ...parts.links import LinkParts
from ...settings.broker_settings import BrokerSettings
from ...transactions.producer_ids import ProducerIds, hold_seconds
from ...transactions.steps import TransactionSteps
from ...upkeep.transaction_upkeep import TransactionUpkeep
from ...upkeep.transaction_watch import TransactionWatch
from .add_offsets_to_txn import AddOffsetsToTxn
from .add_partitions_to_txn import AddPartitionsToTxn
from .describe_transactions import DescribeTransactions
from .end_txn import EndTxn
from .forwarded import (
    ForwardedAddOffsetsToTxn,
    ForwardedAddPartitionsToTxn,
    ForwardedEndTxn,
    ForwardedInitProducerId,
    ForwardedTxnOffsetCommit,
)
from .guards import (
    guard_add_offsets_to_txn,
    guard_add_partitions_to_txn,
    guard_describe_transactions,
    guard_end_txn,
    guard_init_producer_id,
    guard_list_transactions,
    guard_txn_offset_commit,
    guard_write_txn_markers,
)
from .init_producer_id import InitProducerId
from .list_transactions import ListTransactions
from .metrics import transaction_metrics
from .txn_offset_commit import TxnOffsetCommit
from .write_txn_markers import WriteTxnMarkers


def transactions_feature(
    ground: Ground,
    groups: GroupManager,
    links: LinkParts,
    steps: TransactionSteps,
    may_expire: Callable[[], bool],
) -> Feature:
    """Return the feature.

    may_expire: whether this gateway aborts overdue transactions and removes expired ids.
    """
    coordinator, environment = ground.coordinator, ground.environment
    pool, now_ms = environment.pools.records, environment.now_ms
    forwards = links.transaction_forwards
    intervals = _interval_seconds(ground.settings)
    upkeep = TransactionUpkeep(steps, ground.cluster, may_expire, ground.upkeep, *intervals)
    watch = TransactionWatch(coordinator)
    return Feature(
        "transactions",
        (
            *_step_rows(ground, groups, links, steps),
            Row(
                WriteTxnMarkers(steps),
                guard_write_txn_markers,
                max_elements=10_000,  # an append for each marker
                is_audited=True,
                is_exempt=True,
            ),
            Row(DescribeTransactions(coordinator, forwards), guard_describe_transactions),
            Row(
                ListTransactions(coordinator, pool, now_ms, forwards),
                guard_list_transactions,
                lists=True,
            ),
        ),
        (Task("time transactions out", upkeep.run),),
        metrics=partial(transaction_metrics, coordinator.state, ground.cluster, watch, steps),
    )


def transaction_steps(ground: Ground) -> TransactionSteps:
    """Return the part that proposes the steps of transactions."""
    hold = hold_seconds(ground.settings.int("producer.id.expiration.ms"))
    return TransactionSteps(ground.coordinator, ProducerIds(ground.coordinator, hold))


def _interval_seconds(settings: BrokerSettings) -> tuple[float, float]:
    """Return the intervals at which to look for overdue transactions, and for expired ids."""
    abort_ms = settings.int("transaction.abort.timed.out.transaction.cleanup.interval.ms")
    expire_ms = settings.int("transaction.remove.expired.transaction.cleanup.interval.ms")
    return abort_ms / 1000, expire_ms / 1000


def _step_rows(
    ground: Ground,
    groups: GroupManager,
    links: LinkParts,
    steps: TransactionSteps,
) -> Iterator[Row]:
    """Yield the rows of the steps.  The log's rules decide each request as a whole, in one step."""
    coordinator, group_forwards = ground.coordinator, links.group_forwards
    parts = links.transaction_forwards, group_forwards, coordinator
    init = InitProducerId(steps, partial(ground.cluster.time, "transaction.max.timeout.ms"))
    commit = TxnOffsetCommit(coordinator, groups, steps, group_forwards)
    step = partial(Row, is_brief=True, is_step=True)
    yield step(ForwardedInitProducerId(init, *parts), guard_init_producer_id)
    yield step(
        ForwardedAddPartitionsToTxn(AddPartitionsToTxn(coordinator, steps), *parts),
        guard_add_partitions_to_txn,
        max_elements=33_000,  # all partitions that one transaction may have, and their topics
    )
    yield step(
        ForwardedAddOffsetsToTxn(AddOffsetsToTxn(steps, group_forwards), *parts),
        guard_add_offsets_to_txn,
    )
    yield step(
        ForwardedTxnOffsetCommit(commit, *parts),
        guard_txn_offset_commit,
        is_of_members=True,
        max_elements=20_000,
    )
    yield step(ForwardedEndTxn(EndTxn(steps), *parts), guard_end_txn)
