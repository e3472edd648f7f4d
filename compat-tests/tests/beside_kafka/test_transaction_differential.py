"""The scripts, comparisons and permitted differences of compat-tests/transactions/differential."""

from __future__ import annotations

from typing import Any

import pytest
from transactions.differential import permitted
from transactions.differential import steps as st
from transactions.differential.clients import Clients
from transactions.differential.comparing import ABSENT, Difference, compare, differing
from transactions.differential.drawing import draw
from transactions.differential.names import Names
from transactions.differential.playing import play_on
from transactions.differential.seen import ABORTED_LATER, codes, flat
from trio.testing import MockClock

from tests.worlds.clients.on_wire import OnWire
from tests.worlds.wire_client import module_of, wire_world
from tidegate_protocol.control_batches import control_batch
from tidegate_protocol.messages import describe_producers as dp
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.records import Record, build_batch

SCRIPTS = [draw(7, number) for number in range(150)]
ALL_STEPS = [step for script in SCRIPTS for step in script.steps]


def test_a_script_is_always_the_same() -> None:
    assert draw(7, 3) == SCRIPTS[3]
    assert draw(8, 3) != SCRIPTS[3]
    assert draw(7, 3, is_worn=True).worn_to > 32_000


def test_every_kind_of_step_is_drawn() -> None:
    kinds = {
        each
        for each in vars(st).values()
        if isinstance(each, type) and each.__module__ == st.__name__
    }
    kinds -= {st.Who, st.Batch, st.Member, st.Script}
    assert {type(each) for each in ALL_STEPS} == kinds


def test_requests_fit_their_versions() -> None:
    clients = Clients("p", 1, Names(), shares_name=False)
    clients.groups[0].member_id, clients.groups[0].generation = "m", 1
    requests = {
        st.Initialise: clients.initialise,
        st.AddPartitions: clients.add_partitions,
        st.AddOffsets: clients.add_offsets,
        st.StageOffsets: clients.stage,
        st.CommitOffsets: clients.commit,
        st.DeleteOffsets: clients.delete_offsets,
        st.DeleteGroup: clients.delete_group,
        st.Join: clients.join,
        st.Leave: clients.leave,
        st.End: clients.end,
        st.Mark: clients.mark,
        st.DeleteTopic: clients.delete_topic,
        st.ListAll: clients.list_all,
    }
    made = [clients.write(each, 0) for each in ALL_STEPS if isinstance(each, st.Write)]
    for step in ALL_STEPS:
        make: Any = requests.get(type(step))
        if make is not None:
            made.append(make(step))
    assert {"Produce", "EndTxn", "TxnOffsetCommit"} <= {each.api for each in made}
    for each in made:
        assert module_of(each.api).encode_request(each.body, each.version)


def test_producers_are_named_in_order_of_first_sight() -> None:
    names = Names()
    for producer_id in (900, -1, 70, 900):
        names.note_producer(producer_id)
    assert [names.producer(each) for each in (900, 70, 5)] == ["producer 0", "producer 1", "5"]


def test_an_epoch_that_one_broker_skips_is_left_out() -> None:
    names = Names()
    names.skip_epoch(70, 3)
    assert [names.epoch(70, each) for each in range(6)] == [0, 1, 2, 2, 3, 4]
    assert [names.epoch(71, each) for each in range(6)] == list(range(6))
    assert [names.raw_epoch(70, each) for each in range(5)] == [0, 1, 3, 4, 5]


def test_an_answer_becomes_paths_and_values() -> None:
    names = Names()
    names.note_producer(70)
    seen = flat("InitProducerId", ip.InitProducerIdResponse(9, 47, 70, 3), names)
    assert seen == {
        "InitProducerId.error_code": 47,
        "InitProducerId.producer_id": "producer 0",
        "InitProducerId.producer_epoch": 3,
    }
    assert codes(seen) == {47}


def test_rows_are_compared_by_their_key_and_not_by_their_order() -> None:
    names = Names()
    rows = [dp.ProducerState(each, 0, -1, 5, 0, 0) for each in (70, 71)]
    one, other = (
        flat("", dp.PartitionResponse(0, 0, None, each), names) for each in (rows, rows[::-1])
    )
    assert one == other
    fewer = flat("", dp.PartitionResponse(0, 0, None, rows[:1]), names)
    different = {path: values for path, *values in differing(one, fewer)}
    assert different[".active_producers#"] == [2, 1]
    assert different[".active_producers/71.producer_epoch"] == [0, ABSENT]


def fetched(*aborted: int) -> fe.PartitionData:
    """A batch and a marker, and aborted transactions with these first offsets."""
    marker = control_batch(
        base_offset=1,
        leader_epoch=0,
        timestamp_ms=5,
        producer_id=70,
        producer_epoch=4,
        committed=False,
    )
    batch = build_batch(
        [Record(0, 1, None, b"v")], attributes=16, producer_id=70, producer_epoch=3, base_sequence=0
    )
    data = fe.PartitionData(0, 0, 2, 2, 0, records=memoryview(batch + marker))
    data.aborted_transactions = [fe.AbortedTransaction(70, each) for each in aborted]
    return data


def test_batches_are_shown_with_their_kind() -> None:
    names = Names()
    names.note_producer(70)
    seen = flat("", fetched(0), names)
    assert seen[".records@0"] == (
        "1 of 1",
        "attributes 16",
        "producer 0 epoch 3",
        "sequence 0",
        "v",
    )
    assert seen[".records@1"] == (
        "1 of 1",
        "attributes 48",
        "producer 0 epoch 4",
        "sequence -1",
        "abort marker",
    )


def test_what_was_aborted_beyond_the_stable_offset_is_left_out_and_noted() -> None:
    names = Names()
    assert flat("", fetched(0, 2), names) == flat("", fetched(0), names)
    assert names.left_out == {ABORTED_LATER}
    assert flat("", fetched(0, 1), names) != flat("", fetched(0), names)


def test_a_new_epoch_begins_with_sequence_zero() -> None:
    producer = Clients("p", 1, Names(), shares_name=False).producers[0]
    producer.take(70, 0)
    batch = st.Batch((0, 0), 3)
    producer.wrote(batch, producer.sequence(batch))
    again = st.Batch((0, 0), 3, "last")
    assert (producer.sequence(batch), producer.sequence(again)) == (3, 0)
    producer.take(70, 0)
    assert producer.sequence(batch) == 3
    producer.take(70, 1)
    assert producer.sequence(batch) == 0


def test_every_permission_has_a_name_and_a_reason() -> None:
    names = [each.name for each in permitted.PERMITTED]
    assert len(set(names)) == len(names)
    assert all(each.reason.endswith(".") for each in permitted.PERMITTED)


@pytest.mark.parametrize(
    ("step", "path", "kafka", "gateway", "name"),
    [
        (st.Write(11, st.Who(0), ()), "Produce.error_code", 0, 45, "first batch is not 0"),
        (st.Write(11, st.Who(0), ()), "Produce.error_code", 45, 0, None),
        (st.Write(9, st.Who(0), ()), "Produce.error_code", 120, 48, "code of a neighbour"),
        (st.End(5, st.Who(0), True), "EndTxn.error_code", 120, 48, None),
        (st.End(5, st.Who(0), True), "committed.last_stable_offset", 3, 4, None),
        (st.Initialise(5, st.Who(0)), "InitProducerId.error_code", 90, 0, None),
        (st.Initialise(5, st.Who(0), True), "InitProducerId.error_code", 90, 0, "repeated"),
        (st.Mark(1, st.Who(0), (0, 0)), "WriteTxnMarkers.error_code", 0, 47, None),
        (st.Mark(1, st.Who(0), (0, 0)), "end.offset", 3, 2, "markers by request"),
    ],
)
def test_only_what_is_meant_is_permitted(
    step: st.Step, path: str, kafka: object, gateway: object, name: str | None
) -> None:
    script = st.Script(0, False, (step,), (0,))
    found = permitted.permission(Difference(script, 0, path, kafka, gateway))
    assert (found.name if found is not None else "").startswith(name or "")
    assert (found is None) is (name is None)


def test_a_repeat_counts_as_what_it_repeats() -> None:
    steps = (st.End(5, st.Who(0), True), st.Repeat(0), st.Repeat(1))
    script = st.Script(0, False, steps, (0, 0, 0))
    [difference] = compare(script, 2, {"a": 1}, {"a": 2})
    assert difference.step == steps[0]
    assert "script 0, step 2, a: Kafka 1, gateway 2" in str(difference)


async def test_a_gateway_does_not_differ_from_itself(autojump_clock: MockClock) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    async with wire_world(settings) as one, wire_world(settings, seed=2) as other:
        for script in SCRIPTS[:8]:
            sides = [OnWire(each.connect()) for each in (one, other)]
            outcome = await play_on(script, sides, f"s{script.number}")
            assert outcome.differences == []
            assert outcome.steps == len(script.steps)


async def test_another_gateway_differs(autojump_clock: MockClock) -> None:
    step = st.Initialise(5, st.Who(0), timeout_ms=70_000)
    script = st.Script(0, False, (step,), (0,))
    short = {"transaction.max.timeout.ms": "60000"}
    async with wire_world() as one, wire_world(short, seed=2) as other:
        outcome = await play_on(script, [OnWire(each.connect()) for each in (one, other)], "s")
        assert {each.path for each in outcome.differences} >= {"InitProducerId.error_code"}
