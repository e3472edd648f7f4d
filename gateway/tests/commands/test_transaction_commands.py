"""`tidegate transaction list`, `describe` and `abort`, as an operator runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.worlds.app_world import PATIENCE_SECONDS, Process, serving, tidegate
from tests.worlds.transaction_world import GROUP, TransactionWorld, batch
from tidegate_gateway.cli.transaction.rows import Details, Filters, Row, details_of, rows_of
from tidegate_gateway.cli.transaction.text import (
    SHOWN,
    describe_text,
    duration_text,
    list_text,
)

DEV = ("dev", "--port", "0", "--admin-port", "0")


@pytest.fixture
def world() -> TransactionWorld:
    """A world of two transactional ids: `b`, whose transaction was aborted, and `a` without one."""
    world = TransactionWorld()
    ended = world.init("b")
    world.end(ended, "b", committed=False)
    world.init("a")
    return world


def open_x(world: TransactionWorld) -> None:
    who = world.init()
    world.write(batch(who, 0), batch(who, 1))
    world.grow(who, 2)
    world.stage(who, 8)
    world.commit_offset(9)
    world.clock_ms += 125_000
    world.apply()


def test_open_transactions_are_listed_first(world: TransactionWorld) -> None:
    open_x(world)
    lines = list_text(rows_of(world.state, Filters()), is_filtered=False).splitlines()
    assert lines == [
        "STATE          OPEN FOR   PARTITIONS  PRODUCER  ID",
        "Ongoing        2 min 5 s  2           1003      x",
        "Empty          -          -           1002      a",
        "CompleteAbort  -          -           1001      b",
    ]


def test_filters_choose_ids(world: TransactionWorld) -> None:
    open_x(world)
    [ongoing] = {each for each in (world.id().state,)}
    numbers = world.state.topics.get(b"t" * 16).partition_numbers

    def names(**chosen: Any) -> list[str]:
        return [each.transactional_id for each in rows_of(world.state, Filters(**chosen))]

    assert names(states=frozenset({ongoing})) == ["x"]
    assert names(states=frozenset({world.id("b").state})) == ["b"]
    assert names(longer_than_ms=125_000) == []
    assert names(longer_than_ms=124_999) == ["x"]
    assert names(numbers=[numbers[2]]) == ["x"]
    assert names(numbers=[numbers[1]]) == []
    assert names(numbers=numbers, states=frozenset({world.id("b").state})) == []


def test_a_description_names_partitions_and_offsets(world: TransactionWorld) -> None:
    open_x(world)
    details = details_of(world.state, "x")
    assert details is not None
    assert describe_text(details).splitlines() == [
        "transactional id  x",
        "state             Ongoing",
        "producer          id 1003, epoch 0",
        "time-out          1 min",
        "open for          2 min 5 s, since 1970-01-01T00:16:40Z",
        "partitions        2",
        "  t 0: from offset 0 of 2; readers of committed records wait for it",
        "  t 2: no records yet",
        "groups            1",
        f"  {GROUP}: 1 offset to commit",
        "    t 0 at 8; a later commit holds",
    ]
    assert details_of(world.state, "nothing") is None
    idle = details_of(world.state, "a")
    assert idle is not None
    assert describe_text(idle).splitlines()[-1] == "time-out          1 min"


def test_the_transaction_behind_another_holds_no_reader_up(world: TransactionWorld) -> None:
    first, second = world.init("x"), world.init("a")
    world.write(batch(first, 0), batch(second, 0))
    details = details_of(world.state, "a")
    assert details is not None
    assert "  t 0: from offset 1 of 2" in describe_text(details).splitlines()


def row(name: str, number: int = 0) -> Row:
    return Row(name, "Ongoing", number, 0, 60_000, number, 1000, 1, 0)


def test_ids_cannot_flood_or_control_the_terminal() -> None:
    text = list_text([row("a\x1b[2J"), *(row("y" * 30_000) for _ in range(500))], is_filtered=False)
    lines = text.splitlines()
    assert lines[1].endswith(r"a\x1b[2J")
    assert max(map(len, lines)) < 400
    assert len(lines) == 1 + SHOWN + 1
    assert lines[-1] == "and 301 more; --json lists all"
    assert r"\x1b" in describe_text(Details(row("\x1b")))


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 s"),
        (999, "0 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (3_605_000, "1 h"),
        (90_061_000, "1 d 1 h"),
    ],
)
def test_durations_have_two_units(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


def open_transaction(process: Process) -> Producer:
    """Return a producer with an open transaction: one record in partition 0 of orders."""
    producer = Producer(
        {
            "bootstrap.servers": process.servers,
            "transactional.id": "copier",
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce("orders", b"1", partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return producer


def read_committed(process: Process) -> int:
    """Return the offset at which a read_committed consumer reaches its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": process.servers,
            "group.id": "g",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition("orders", 0, 0)])
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        return int(message.offset() or 0)
    finally:
        consumer.close()


def test_a_transaction_that_stays_open_is_found_and_aborted(tmp_path: Path) -> None:
    with serving(*DEV, "--log-level", "info", cwd=tmp_path) as process:
        producer = open_transaction(process)
        assert read_committed(process) == 0
        done = tidegate("transaction", "list", "--topic", "orders", "--json", cwd=tmp_path)
        [listed] = json.loads(done.stdout)
        assert (listed["transactional_id"], listed["state"]) == ("copier", "Ongoing")
        assert (listed["partitions"], listed["timeout_ms"]) == (1, 600_000)

        done = tidegate("transaction", "abort", "copier", cwd=tmp_path)
        assert (done.returncode, done.stdout.splitlines()[0]) == (1, "transactional id  copier")
        assert "There is no terminal to answer at: give --yes." in done.stderr
        assert "copier: nothing was changed" in done.stderr
        done = tidegate("transaction", "describe", "copier", "--json", cwd=tmp_path)
        described = json.loads(done.stdout)
        [partition] = described["partitions"]
        assert (partition["topic"], partition["first_offset"]) == ("orders", 0)
        assert partition["is_held"]

        done = tidegate("transaction", "abort", "copier", "--yes", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "is aborted. Readers skip its records" in done.stdout
        assert read_committed(process) == 2
        with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
            producer.commit_transaction(PATIENCE_SECONDS)

        done = tidegate("transaction", "abort", "copier", "--yes", "--json", cwd=tmp_path)
        assert (done.returncode, json.loads(done.stdout)["aborted"]) == (1, False)
        assert done.stderr == "tidegate: copier: it has no open transaction\n"
        _, logged = process.stop()
    assert logged.count("an operator aborted a transaction") == 1


def test_a_wrong_command_says_what_to_do(tmp_path: Path) -> None:
    with serving(*DEV, cwd=tmp_path):
        for words, sentence in (
            (("list", "--state", "Open"), "--state Open: choose one of Empty, Ongoing, Comp"),
            (("list", "--topic", "no"), "there is no topic no"),
            (("list", "--partition", "1"), "--partition needs the --topic that has the partition"),
            (("describe", "no"), "no transactional id is 'no'; see `tidegate transaction list`"),
            (("abort", "no", "--yes"), "no transactional id is 'no'; see"),
            (("abort", "no", "--json"), "--json cannot ask for a confirmation: give --yes, too"),
        ):
            done = tidegate("transaction", *words, cwd=tmp_path)
            assert (done.returncode, done.stdout) == (2, ""), words
            assert done.stderr.startswith(f"tidegate: {sentence}")
        done = tidegate("transaction", "list", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "No producer has used a transactional id.\n")
        done = tidegate("transaction", "list", "--state", "ongoing", cwd=tmp_path)
        assert done.stdout == "No transactional id passes these filters.\n"
    done = tidegate("transaction", "list", "--log", "sqlite:no.db", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no file no.db" in done.stderr
