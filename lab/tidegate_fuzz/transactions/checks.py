"""Facts about transactions that hold after every request."""

from __future__ import annotations

from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.transactions.open import NOTHING_WRITTEN


class TransactionChecks:
    """Remembers how far readers of committed records could read, by partition number."""

    def __init__(self) -> None:
        self._stable: dict[int, int] = {}

    def check(self, state: ClusterState) -> None:
        """Raise AssertionError if a fact does not hold."""
        opened = _by_partition(state)
        for partition in state.partitions.values():
            producers = opened.get(partition.number, {})
            known = partition.open.as_dict() if partition.open is not None else {}
            assert known == producers, f"partition {partition.number}: open"
            _check_stable(partition, producers)
            last = self._stable.get(partition.number, 0)
            assert partition.last_stable_offset >= last, "the last stable offset went back"
            self._stable[partition.number] = partition.last_stable_offset


def check_none_is_open(state: ClusterState) -> None:
    """Check that time-outs have aborted all transactions."""
    assert not state.transactions.open_ids(), f"open: {state.transactions.open_ids()[:3]}"
    for partition in state.partitions.values():
        assert partition.last_stable_offset == partition.next_offset


def _by_partition(state: ClusterState) -> dict[int, dict[int, int]]:
    """Return the first offset of each open transaction, by partition number and producer id."""
    table = state.transactions
    found: dict[int, dict[int, int]] = {}
    for name in table.names():
        row, transaction = table.get(name), table.open_of(name)
        assert row is not None
        assert row.is_open is (transaction is not None), f"{name} is {row.state.shown}"
        for number, offset in transaction.partitions.items() if transaction is not None else ():
            if offset != NOTHING_WRITTEN:
                found.setdefault(number, {})[row.producer_id] = offset
    return found


def _check_stable(partition: Partition, producers: dict[int, int]) -> None:
    first = min(producers.values(), default=partition.next_offset)
    stable = max(first, partition.log_start)
    assert partition.last_stable_offset == stable, f"LSO {partition.last_stable_offset}: {stable}"
