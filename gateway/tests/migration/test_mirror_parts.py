"""The pure parts of a mirror: batches of a fetch, and the progress of a partition."""

from __future__ import annotations

import pytest

from tests.worlds.wire_client import records_batch
from tidegate_coordination.client.fetched_batches import BadBatch, fetched_batches
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome, Refusal
from tidegate_coordination.rules.records.mirrored_batches import ABORT, COMMIT, PLAIN, TRANSACTIONAL
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_gateway.migration.mirror.fetch_round import asked_now
from tidegate_gateway.migration.mirror.partition import PartitionMirror
from tidegate_protocol import batches as pb
from tidegate_protocol.control_batches import control_batch
from tidegate_protocol.records import Record, build_batch, rebuild_batch

TOPIC = Topic(b"t" * 16, "t", [0], 1, {})


def stored(base: int, count: int = 1, epoch: int = 3, **head: int) -> bytes:
    """Return a batch as a leader stores it."""
    data = bytearray(records_batch(*[b"v"] * count, **head))
    pb.set_base_offset(memoryview(data), 0, base_offset=base, leader_epoch=epoch)
    return bytes(data)


def marker(base: int, *, committed: bool) -> bytes:
    return control_batch(
        base_offset=base,
        leader_epoch=3,
        timestamp_ms=9,
        producer_id=7,
        producer_epoch=1,
        committed=committed,
    )


def test_batches_follow_each_other_over_gaps() -> None:
    data = stored(10, 2) + stored(15, 3) + stored(18)
    found = fetched_batches(memoryview(data), 10)
    assert [each.mirrored[:4] for each in found] == [
        (10, 10, 12, 3),
        (12, 15, 18, 3),
        (18, 18, 19, 3),
    ]
    assert b"".join(each.data for each in found) == data


@pytest.mark.parametrize("cut", [1, 17, 40, 62])
def test_a_batch_that_is_cut_short_comes_with_the_next_fetch(cut: int) -> None:
    data = stored(10) + stored(11)[:cut]
    assert len(fetched_batches(memoryview(data), 10)) == 1


def test_batches_below_the_position_are_left_out() -> None:
    data = stored(5, 5) + stored(10)
    [found] = fetched_batches(memoryview(data), 10)
    assert found.mirrored.base_offset == 10


def test_the_first_batch_may_hold_the_log_start_of_the_source() -> None:
    [found] = fetched_batches(memoryview(stored(5, 5)), 8, after=5)
    assert found.mirrored[:3] == (5, 5, 10)
    with pytest.raises(BadBatch, match="begins before"):
        fetched_batches(memoryview(stored(5, 5)), 8)


def test_kinds_of_batches() -> None:
    data = (
        stored(0, producer_id=7, producer_epoch=1, base_sequence=0)
        + stored(1, producer_id=7, producer_epoch=1, base_sequence=1, attributes=pb.TRANSACTIONAL)
        + marker(2, committed=True)
        + marker(3, committed=False)
    )
    kinds = [each.mirrored.kind for each in fetched_batches(memoryview(data), 0)]
    assert kinds == [PLAIN, TRANSACTIONAL, COMMIT, ABORT]


def test_an_empty_batch_of_a_transaction_begins_none() -> None:
    """Compaction emptied the batch, and may have removed the transaction's marker."""
    head = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 4}
    header = pb.read_header(stored(0, attributes=pb.TRANSACTIONAL, **head))
    empty = rebuild_batch(header, [], codec=0)
    [found] = fetched_batches(memoryview(empty), 0)
    assert found.mirrored.kind == PLAIN
    assert found.facts[3:6] == (7, 1, 4)


def test_a_compacted_batch_keeps_the_sequence_of_its_last_record() -> None:
    data = bytearray(stored(0, 4, producer_id=7, producer_epoch=1, base_sequence=20))
    [found] = fetched_batches(memoryview(data), 0)
    assert found.facts[3:7] == (7, 1, 20, 23)


def test_batches_before_a_bad_one_are_taken() -> None:
    data = bytearray(stored(4) + stored(5))
    data[-1] ^= 1
    assert [each.mirrored.base_offset for each in fetched_batches(memoryview(data), 4)] == [4]
    with pytest.raises(BadBatch, match="offset 5"):
        fetched_batches(memoryview(data), 5)


def control(kind: int, version: int) -> bytes:
    """Return a control batch of any kind, with a value of any version."""
    key, value = kind.to_bytes(4), version.to_bytes(2) + bytes(8)
    data = build_batch(
        [Record(0, 9, key, value)],
        attributes=pb.TRANSACTIONAL | pb.CONTROL,
        producer_id=7,
        producer_epoch=1,
        base_sequence=-1,
    )
    return bytes(data)


@pytest.mark.parametrize(("kind", "found"), [(0, ABORT), (1, COMMIT)])
def test_markers_of_later_versions_are_markers(kind: int, found: int) -> None:
    [each] = fetched_batches(memoryview(control(kind, 1)), 0)
    assert each.mirrored.kind == found


def test_a_control_batch_of_an_unknown_kind_is_not_passed_over() -> None:
    with pytest.raises(BadBatch, match="unknown kind"):
        fetched_batches(memoryview(control(9, 0)), 0)


@pytest.mark.parametrize(
    ("at", "reason"), [(65, "CRC"), (pb.MAGIC_POSITION, "record format"), (11, "length")]
)
def test_damage_is_named_with_its_offset(at: int, reason: str) -> None:
    data = bytearray(stored(4))
    if at == 11:
        data[8:12] = bytes(4)
    else:
        data[at] ^= 3
    with pytest.raises(BadBatch, match="offset 4.*" + reason):
        fetched_batches(memoryview(data), 4)


def test_a_refused_batch_makes_the_mirror_look_again_once_all_others_are_settled() -> None:
    mirror = PartitionMirror(TOPIC, 0, 0)
    partition = Partition(0, TOPIC.topic_id, 0, next_offset=10)
    assert mirror.may_rewind
    mirror.rewind(partition)
    assert (mirror.position, mirror.is_due(0)) == (10, True)
    mirror.given(12, 3)
    mirror.given(13, 4)
    assert mirror.epoch == 4
    mirror.settled(BatchOutcome(Refusal.ABANDONED, -1, -1, -1), 50.0)
    assert "given up" in mirror.problem
    assert not mirror.may_rewind
    assert not mirror.is_due(0)
    mirror.settled(None, 50.0)
    assert mirror.may_rewind
    mirror.rewind(partition)
    mirror.given(12, 3)
    mirror.settled(BatchOutcome(None, -1, -1, -1), 60.0)
    # The batch's object was committed before, but it is unknown which batches were.
    assert mirror.may_rewind
    mirror.rewind(partition)
    assert mirror.position == 10


def test_the_answer_to_a_fetch_from_elsewhere_is_of_no_use() -> None:
    """Otherwise the answer's batches would seem to follow after a gap."""
    mirror = PartitionMirror(TOPIC, 0, 0, position=68, end=68, is_lost=False)
    [asked] = asked_now([mirror])
    assert not asked.is_stale
    mirror.is_lost = True
    assert asked.is_stale
    mirror.rewind(Partition(0, TOPIC.topic_id, 0, next_offset=9))
    assert asked.is_stale


def test_pauses_grow_until_a_fetch_succeeds() -> None:
    mirror = PartitionMirror(TOPIC, 0, 0, is_lost=False)
    pauses = []
    for _ in range(7):
        mirror.pause(0.0, "no leader")
        pauses.append(mirror.not_before)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    mirror.goes_on()
    mirror.pause(100.0, "no leader")
    assert mirror.not_before == 101
