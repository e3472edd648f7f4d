"""Tests that use the image through testcontainers. containers.py runs them with an engine."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import Consumer, Producer

from tidegate_gateway.testing.containers import TidegateContainer

IMAGE = os.environ["IMAGE"]
PATIENCE_SECONDS = 60.0


def test_records_of_a_group_and_a_setting() -> None:
    with TidegateContainer(IMAGE, settings={"num.partitions": 3}) as tidegate:
        servers = {"bootstrap.servers": tidegate.get_bootstrap_server()}
        producer = Producer(servers)
        producer.produce("orders", "tea")
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert len(producer.list_topics("orders").topics["orders"].partitions) == 3
        consumer = Consumer(servers | {"group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        message = consumer.poll(PATIENCE_SECONDS)
        consumer.close()
    assert message is not None
    assert message.value() == b"tea"


def test_two_at_once_and_a_variable() -> None:
    with (
        TidegateContainer(IMAGE).with_env("TIDEGATE_NUM_PARTITIONS", "2") as one,
        TidegateContainer(IMAGE).with_kwargs(tty=False) as other,
    ):
        assert [partitions_of_a_new_topic(each) for each in (one, other)] == [2, 1]


def partitions_of_a_new_topic(container: TidegateContainer) -> int:
    producer = Producer({"bootstrap.servers": container.get_bootstrap_server()})
    producer.produce("new", "tea")
    assert producer.flush(PATIENCE_SECONDS) == 0
    return len(producer.list_topics("new").topics["new"].partitions)


def test_a_wrong_setting_is_quoted() -> None:
    container = TidegateContainer(IMAGE, settings={"num.partitons": 3})
    with pytest.raises(RuntimeError) as caught, container:
        pass
    (note,) = caught.value.__notes__
    assert "did you mean num.partitions?" in note
