"""The metrics that a client must push: those of all subscriptions that match it."""

from __future__ import annotations

import pytest

from tidegate_coordination.events.cluster import ConfigsSet
from tidegate_coordination.rules.configs import ResourceType
from tidegate_coordination.state.configs import ConfigTable
from tidegate_gateway.telemetry.subscriptions import Choice, Subscriptions

ID = bytes(range(1, 17))
JAVA = {
    "client_instance_id": "AAECAwQFBgcICQoLDA0ODw",
    "client_id": "orders-1",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.3.1",
    "client_source_address": "10.0.0.7",
    "client_source_port": "40001",
}


def subscribed(**by_name: dict[str, str]) -> Subscriptions:
    table = ConfigTable()
    for name, configs in by_name.items():
        subscribe(table, name, configs)
    found = Subscriptions(table)
    assert found.version == bool(by_name)
    return found


def subscribe(table: ConfigTable, name: str, configs: dict[str, str]) -> None:
    configs = {key.replace("_", "."): value for key, value in configs.items()}
    table.fold_configs_set(ConfigsSet(ResourceType.CLIENT_METRICS.value, name, configs))


def chosen(**by_name: dict[str, str]) -> Choice:
    return subscribed(**by_name).choice_of(JAVA, ID)


def test_without_a_subscription_a_client_pushes_nothing() -> None:
    choice = chosen()
    assert (choice.metrics, choice.interval_ms) == ((), 300_000)
    assert not choice.wants("org.apache.kafka.producer.x")


def test_subscriptions_are_joined() -> None:
    choice = chosen(
        one={"metrics": "b, a.b", "interval_ms": "5000"},
        two={"metrics": "a.b,c", "interval_ms": "3600000"},
        other={"metrics": "d", "interval_ms": "100", "match": "client_id=x"},
    )
    assert (choice.metrics, choice.interval_ms) == (("a.b", "b", "c"), 5_000)
    assert [name for name in ("a.b", "a.bc", "a", "b", "d") if choice.wants(name)] == [
        "a.b",
        "a.bc",
        "b",
    ]
    assert chosen(one={"metrics": "a", "interval_ms": "3600000"}).interval_ms == 300_000


def test_a_star_is_all_metrics() -> None:
    choice = chosen(one={"metrics": "a"}, two={"metrics": "b,*"})
    assert choice.metrics == ("*",)
    assert choice.wants("anything")


@pytest.mark.parametrize(
    ("match", "is_meant"),
    [
        ("client_id=orders-.*", True),
        ("client_id=orders", False),
        ("client_id=orders-1,client_software_name=apache-kafka-java", True),
        ("client_id=orders-1 , client_software_name=librdkafka", False),
        ("client_software_version=4\\..*", True),
        ("client_source_address=10\\.0\\..*,client_source_port=4....", True),
        ("client_source_port=50001", False),
        ("client_instance_id=AAECAwQFBgcICQoLDA0ODw", True),
        ("client_id=x,client_id=orders-1", True),
        ("client_id=(", False),
        ("client_id", False),
        ("client_id= =", False),
        ("nothing=x", False),
        ("", True),
    ],
)
def test_matching(match: str, is_meant: bool) -> None:
    assert bool(chosen(one={"metrics": "a", "match": match}).metrics) == is_meant


def test_an_id_names_the_choice_and_the_client() -> None:
    one = subscribed(a={"metrics": "x,y", "interval_ms": "100"})
    same = subscribed(b={"metrics": "y"}, a={"metrics": "x", "interval_ms": "100"})
    slower = subscribed(a={"metrics": "x,y", "interval_ms": "101"})
    ids = [each.choice_of(JAVA, ID).id for each in (one, same, slower)]
    assert ids[0] == ids[1] != ids[2]
    assert one.choice_of(JAVA, bytes(16)).id != ids[0]
    assert all(-(2**31) <= each < 2**31 for each in ids)


def test_the_id_is_that_of_kafka_for_one_prefix() -> None:
    choice = subscribed(one={"metrics": "a", "interval_ms": "100"}).choice_of(JAVA, ID)
    crc_of_text = 0x8F9B2D6A  # of "[a]100", bit by bit
    # Java's hash code of a UUID is the XOR of its four integers.
    hash_code = 0x01020304 ^ 0x05060708 ^ 0x090A0B0C ^ 0x0D0E0F10
    assert choice.id & 0xFFFFFFFF == crc_of_text ^ hash_code


def test_the_version_rises_with_changes_of_subscriptions_only() -> None:
    table = ConfigTable()
    found = Subscriptions(table)
    assert found.version == 0
    subscribe(table, "one", {"metrics": "a"})
    assert found.version == 1
    table.fold_configs_set(ConfigsSet(ResourceType.GROUP.value, "g", {"a": "b"}))
    subscribe(table, "one", {"metrics": "a"})
    assert found.version == 1
    assert found.choice_of(JAVA, ID).metrics == ("a",)
    subscribe(table, "one", {})
    assert found.version == 2
    assert found.choice_of(JAVA, ID).metrics == ()
