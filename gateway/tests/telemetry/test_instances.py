"""When a client may ask and push: as in ClientMetricsManager of Kafka 4.3.1."""

from __future__ import annotations

import pytest

from tidegate_coordination.events.cluster import ConfigsSet
from tidegate_coordination.rules.configs import ResourceType
from tidegate_coordination.state.configs import ConfigTable
from tidegate_gateway.telemetry import instances as module
from tidegate_gateway.telemetry.instances import Instance, Instances
from tidegate_gateway.telemetry.subscriptions import Choice, Subscriptions
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.push_telemetry import PushTelemetryRequest

INTERVAL = 1_000
NONE, THROTTLED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
UNKNOWN_ID, BAD_CODEC = ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
NAMES = ("instance_id", "id", "software_name", "software_version", "source_address", "source_port")
ATTRIBUTES = {f"client_{each}": each for each in NAMES}


def client() -> Instance:
    return Instance(ATTRIBUTES, Choice(7, ("a",), INTERVAL), 1)


def push(
    instance: Instance, now_ms: float, *, choice: int = 7, codec: int = 0, size: int = 1
) -> ErrorCode:
    request = PushTelemetryRequest(bytes(16), choice, False, codec, bytes(size))
    return instance.push(request, 10, now_ms)


def last_push(instance: Instance, now_ms: float) -> ErrorCode:
    request = PushTelemetryRequest(bytes(16), 7, True, metrics=b"x")
    return instance.push(request, 10, now_ms)


def test_a_client_asks_once_an_interval() -> None:
    one = client()
    assert [one.get(now) for now in (0, 1, 999, 1_000, 1_999, 2_000)] == [
        NONE, THROTTLED, THROTTLED, NONE, THROTTLED, NONE,
    ]  # fmt: skip


def test_the_first_push_after_a_question_may_come_early() -> None:
    one = client()
    assert one.get(0) is NONE
    assert [push(one, now) for now in (1, 2, 1_000, 1_001)] == [NONE, THROTTLED, THROTTLED, NONE]
    assert one.get(1_500) is THROTTLED


def test_a_push_comes_without_a_question() -> None:
    """The client may have asked another gateway."""
    one = client()
    assert [push(one, now) for now in (5, 6, 1_005)] == [NONE, THROTTLED, NONE]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"choice": 8}, UNKNOWN_ID),
        ({"codec": 5}, BAD_CODEC),
        ({"codec": -1}, BAD_CODEC),
        ({"size": 11}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"size": 10}, NONE),
        ({"codec": 4}, NONE),
        ({"choice": 8, "codec": 5}, UNKNOWN_ID),
        ({"codec": 5, "size": 11}, BAD_CODEC),
    ],
)
def test_checks_of_a_push(wrong: dict[str, int], error: ErrorCode) -> None:
    assert push(client(), 0, **wrong) is error


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [({"choice": 8}, NONE), ({"codec": 5}, NONE), ({"size": 11}, THROTTLED), ({}, THROTTLED)],
)
def test_who_may_ask_again_at_once(wrong: dict[str, int], answer: ErrorCode) -> None:
    one = client()
    push(one, 0, **wrong)
    assert one.get(1) is answer
    assert one.get(2) is THROTTLED


def test_the_last_push_comes_early_and_none_after_it() -> None:
    one = client()
    assert push(one, 0) is NONE
    assert last_push(one, 1) is NONE
    assert push(one, 5_000) is ErrorCode.INVALID_REQUEST
    assert push(one, 9_000) is NONE  # as in Kafka, which remembers only the last request's flag


def known(interval_ms: int = INTERVAL) -> tuple[Instances, ConfigTable]:
    table = ConfigTable()
    set_interval(table, interval_ms)
    return Instances(Subscriptions(table)), table


def set_interval(table: ConfigTable, interval_ms: int) -> None:
    configs = {"interval.ms": str(interval_ms), "metrics": "a"}
    table.fold_configs_set(ConfigsSet(ResourceType.CLIENT_METRICS.value, "one", configs))


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_a_changed_subscription_makes_a_client_anew() -> None:
    instances, table = known()
    one, is_new = instances.found(id_of(1), ATTRIBUTES, 0)
    assert is_new
    assert one.get(0) is NONE
    assert instances.found(id_of(1), {}, 1) == (one, False)
    set_interval(table, 2_000)
    other, is_new = instances.found(id_of(1), {}, 2)
    assert is_new
    assert other.get(2) is NONE
    assert (other.choice.interval_ms, other.attributes) == (2_000, ATTRIBUTES)
    assert other.choice.id != one.choice.id


def test_silent_clients_are_forgotten() -> None:
    instances, _ = known(100_000)
    instances.found(id_of(1), ATTRIBUTES, 0)
    assert not instances.found(id_of(1), ATTRIBUTES, 299_999)[1]
    assert instances.found(id_of(1), ATTRIBUTES, 599_999)[1]
    instances.found(id_of(2), ATTRIBUTES, 700_000)
    assert len(instances) == 2
    instances.found(id_of(2), ATTRIBUTES, 900_000)
    assert len(instances) == 1


def test_silence_is_a_minute_at_least() -> None:
    instances, _ = known(100)
    instances.found(id_of(1), ATTRIBUTES, 0)
    assert not instances.found(id_of(1), ATTRIBUTES, 59_999)[1]
    assert instances.found(id_of(1), ATTRIBUTES, 119_999)[1]


def test_clients_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_INSTANCES", 3)
    instances, _ = known()
    for number in (1, 2, 3, 1, 4):
        instances.found(id_of(number), ATTRIBUTES, 0)
    assert [number for number in range(5) if id_of(number) in instances] == [1, 3, 4]
