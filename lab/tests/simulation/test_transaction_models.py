"""The models with which the watch compares transactions, and the ledger of their clients."""

from __future__ import annotations

import pytest

from tidegate_coordination.events import transactions as tev
from tidegate_coordination.events.groups import CommittedOffset
from tidegate_simulation.clients.workload import Key
from tidegate_simulation.invariants.transactions.partition_transactions import PartitionTransactions
from tidegate_simulation.invariants.transactions.past import Past
from tidegate_simulation.invariants.transactions.staged_offsets import StagedOffsets
from tidegate_simulation.invariants.transactions.transactional_ids import TransactionalIds
from tidegate_simulation.transactions.ledger import Ledger

TOPIC = b"t" * 16
PLACE = (TOPIC, 0)


class Ids:
    """A model, and the numbers of the invariants that were broken."""

    def __init__(self) -> None:
        self.broken: list[int] = []
        self.counts: list[str] = []
        self.model = TransactionalIds(lambda n, _: self.broken.append(n), self.counts.append)

    def init(self, name: str, producer_id: int, epoch: int) -> None:
        event = tev.TransactionalIdInitialised(name, producer_id, epoch, -1, -1, 5_000)
        self.model.initialised(event, 0)

    def begin(self, name: str, *numbers: int) -> None:
        found = self.model.by_name[name]
        found.begin(0, 1)
        found.partitions |= dict.fromkeys(numbers, 0)

    def end(
        self,
        producer_id: int,
        *numbers: int,
        following: tuple[int, int],
        committed: bool = True,
        cause: int = tev.CAUSE_CLIENT,
        now_ms: int = 1,
    ) -> None:
        markers = tuple((number, 9) for number in numbers)
        event = tev.TransactionEnded(
            producer_id, committed, following[1], *following, markers, now_ms, cause
        )
        self.model.ended(event, now_ms)


def test_an_id_goes_from_epoch_to_epoch() -> None:
    ids = Ids()
    ids.init("x", 7, 0)
    ids.begin("x", 1, 2)
    ids.end(7, 1, 2, following=(7, 1))
    ids.init("x", 7, 2)
    ids.init("x", 7, 2)  # a repeated request
    assert ids.broken == []
    assert ids.counts == ["transaction.committed"]


@pytest.mark.parametrize("epoch", [0, 32_767])
def test_an_epoch_is_given_once_and_the_last_one_never(epoch: int) -> None:
    ids = Ids()
    ids.init("x", 7, 0)
    ids.init("x", 7, 1)
    ids.init("x", 7, epoch)
    assert 14 in ids.broken


def test_a_producer_id_belongs_to_one_id_for_ever() -> None:
    ids = Ids()
    ids.init("x", 7, 0)
    ids.model.expired(tev.TransactionalIdsExpired(("x",)), 100, 10)
    assert ids.broken == []
    ids.init("y", 7, 1)
    assert ids.broken == [14]


@pytest.mark.parametrize("numbers", [(1,), (1, 1), (1, 2, 3)])
def test_each_partition_gets_one_marker(numbers: tuple[int, ...]) -> None:
    ids = Ids()
    ids.init("x", 7, 0)
    ids.begin("x", 1, 2)
    ids.end(7, *numbers, following=(7, 1))
    assert ids.broken == [10]


def test_a_time_out_fences_and_is_not_early() -> None:
    for following, now_ms, broken in (
        ((7, 1), 5_001, []),
        ((7, 1), 5_000, [10]),
        ((7, 0), 9_000, [14]),
    ):
        ids = Ids()
        ids.init("x", 7, 0)
        ids.begin("x")
        ids.end(7, following=following, committed=False, cause=tev.CAUSE_TIME_OUT, now_ms=now_ms)
        assert ids.broken == broken


def test_an_open_or_young_id_does_not_expire() -> None:
    ids = Ids()
    ids.init("x", 7, 0)
    ids.init("y", 8, 0)
    ids.begin("y")
    ids.model.expired(tev.TransactionalIdsExpired(("x",)), 10, 10)
    ids.model.expired(tev.TransactionalIdsExpired(("y",)), 100, 10)
    assert ids.broken == [9, 9]


def row(offset: int) -> list[CommittedOffset]:
    return [CommittedOffset(TOPIC, 0, offset, -1, "", 0)]


def test_staged_offsets_count_from_the_end_of_their_transaction() -> None:
    offsets = StagedOffsets()
    offsets.stage("x", "g", row(5))
    assert offsets.pending("g") == {PLACE}
    assert offsets.committed.get("g", {}) == {}
    assert offsets.end("x", committed=True) == {"g"}
    assert offsets.committed["g"][PLACE].offset == 5
    offsets.stage("x", "g", row(6))
    offsets.end("x", committed=False)
    assert offsets.committed["g"][PLACE].offset == 5
    assert offsets.pending("g") == set()


def test_an_offset_that_was_staged_earlier_does_not_replace_a_later_one() -> None:
    offsets = StagedOffsets()
    offsets.stage("x", "g", row(5))
    offsets.stage("y", "g", row(6))
    offsets.commit("g", row(7))
    offsets.end("y", committed=True)
    offsets.end("x", committed=True)
    assert offsets.committed["g"][PLACE].offset == 7


def test_deleted_offsets_are_not_pending() -> None:
    offsets = StagedOffsets()
    offsets.stage("x", "g", row(5))
    offsets.delete("g")
    offsets.stage("y", "h", row(6))
    assert offsets.delete_topic(TOPIC) == {"h"}
    assert offsets.pending("g") | offsets.pending("h") == set()


def test_a_partition_keeps_what_was_aborted() -> None:
    partition = PartitionTransactions()
    partition.write(7, 3)
    partition.write(8, 4)
    partition.write(7, 5)
    assert partition.stable_offset(0, 9) == 3
    assert partition.stable_offset(4, 9) == 4
    partition.end(7, 9, committed=False)
    partition.end(8, 10, committed=True)
    partition.end(9, 11, committed=False)  # added, but not written
    assert partition.stable_offset(0, 12) == 12
    assert [tuple(each) for each in partition.aborted.values()] == [(7, 3, 9)]


def test_the_past_has_what_held_in_a_stretch() -> None:
    past = Past[str, int](0)
    past.note("x", 3, 1)
    past.note("x", 4, 1)
    past.note("x", 7, 2)
    assert past.between("x", 1, 2) == [0]
    assert past.between("x", 2, 3) == [0, 1]
    assert past.between("x", 5, 9) == [1, 2]
    assert past.between("y", 0, 9) == [0]


def test_a_ledger_knows_which_offsets_are_possible() -> None:
    ledger = Ledger("x", Key(0, "t", TOPIC, 0))
    assert ledger.possible == {-1}
    staged, plain = ledger.next_offset(), ledger.next_offset()
    ledger.tries(staged)
    assert ledger.possible == {-1, staged}
    ledger.ended(plain, committed=True)
    ledger.ended(staged, committed=True)
    assert ledger.possible == {plain}
    lost = ledger.next_offset()
    ledger.lost_sight(lost)
    assert ledger.possible == {plain, lost}
