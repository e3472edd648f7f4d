"""Finds out which transaction a request of protocol version 1 belonged to at its arrival.

Before version 2 the end of a transaction does not raise the epoch.  So if a request waits for the
store or the log, and its client gives up and begins the next transaction, the request would count
as part of that transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate_coordination.state.cluster import ClusterState


def began_at(state: ClusterState, transactional_id: str) -> int:
    """Return the position where the open transaction began; the replica's position if none is open.

    No later transaction can begin at the returned position.
    """
    row = state.transactions.get(transactional_id)
    return row.began if row is not None and row.is_open else state.position


def is_known(state: ClusterState, transactional_id: str, partitions: Iterable[int]) -> bool:
    """Return whether the replica has an open transaction with all of the partitions."""
    transaction = state.transactions.open_of(transactional_id)
    return transaction is not None and all(map(transaction.is_in, partitions))
