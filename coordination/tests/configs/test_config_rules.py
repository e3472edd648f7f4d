"""Setting configs of topics, gateways, groups and client metrics: every refusal and its text."""

from heapq import nsmallest
from random import Random
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from tidegate_coordination.events.cluster import (
    ClusterCreated,
    ConfigsSet,
    Endpoint,
    GatewayRegistered,
    TopicCreated,
)
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.rules.configs import (
    Change,
    ConfigRefusal,
    ConfigRefused,
    Operation,
    ResourceChange,
    SetConfigs,
)
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.state import configs as configs_module
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.configs import ConfigTable

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = Operation
CONFIG, REQUEST = ConfigRefusal.INVALID_CONFIG, ConfigRefusal.INVALID_REQUEST


def fold(state: ClusterState, *events: Any, writer: int = 1) -> None:
    state.apply(state.position + 1, Entry(1, b"n", writer, 1_000_000, events))


@pytest.fixture
def state() -> ClusterState:
    state = ClusterState()
    endpoints = (Endpoint("PLAINTEXT", "h", 1),)
    registered = GatewayRegistered(1, 1, "k", "", endpoints, "0", 0)
    fold(state, ClusterCreated("cluster", 1), registered, writer=0)
    fold(state, TopicCreated(b"i" * 16, "t", 1, 1, {"retention.ms": "7"}))
    return state


def propose(state: ClusterState, *resources: ResourceChange, **options: Any) -> list[Any]:
    view = View(state, 1, 1_000_000, 1_000_000)
    decided = SetConfigs(resources, **options).decide(view)
    if decided.events:
        fold(state, *decided.events)
    return decided.answer


def alter(state: ClusterState, kind: int, name: str, *changes: tuple[Any, ...]) -> Any:
    rows = [Change(*each) for each in changes]
    [answer] = propose(state, ResourceChange(kind, name, rows))
    return answer


REFUSED = [
    (TOPIC, "nope", "retention.ms", SET, "1", ConfigRefusal.UNKNOWN_TOPIC,
     "The topic 'nope' does not exist."),
    (TOPIC, "", "retention.ms", SET, "1", REQUEST, "Default topic resources are not allowed."),
    (TOPIC, "t", "foo", SET, "1", CONFIG, "Unknown topic config name: foo"),
    (TOPIC, "t", "foo", APPEND, "1", CONFIG,
     "Can't APPEND to key foo because its type is not LIST."),
    (TOPIC, "t", "retention.ms", APPEND, "1", CONFIG,
     "Can't APPEND to key retention.ms because its type is not LIST."),
    (TOPIC, "t", "retention.ms", SUBTRACT, "1", CONFIG,
     "Can't SUBTRACT to key retention.ms because its type is not LIST."),
    (TOPIC, "t", "retention.ms", SET, "x", CONFIG,
     "Invalid value x for configuration retention.ms: Not a number of type LONG"),
    (TOPIC, "t", "cleanup.policy", APPEND, "foo", CONFIG,
     "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"),
    (TOPIC, "t", "preallocate", SET, None, REQUEST, "Null value not supported for : preallocate"),
    (BROKER, "1", "foo", SET, "1", REQUEST, "Unknown broker config name: foo"),
    (BROKER, "1", "log.retention.ms", SET, "x", REQUEST,
     "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
    (BROKER, "1", "message.max.bytes", SET, "-3", REQUEST,
     "Invalid value -3 for configuration message.max.bytes: Value must be at least 0"),
    (BROKER, "9", "log.retention.ms", SET, "1", REQUEST,
     "Unexpected broker id: no gateway with node id 9 is alive"),
    (BROKER, "x", "log.retention.ms", SET, "1", REQUEST,
     "Node id must be an integer, but it is: x"),
    (BROKER, "1", "node.id", SET, "7", REQUEST,
     "Cannot update these configs dynamically: [node.id]"),
    (BROKER, "1", "auto.create.topics.enable", SET, "false", REQUEST,
     "Cannot update these configs dynamically: [auto.create.topics.enable]"),
    (BROKER, "1", "wal.linger.ms", SET, "1", REQUEST,
     "Cannot update these configs dynamically: [wal.linger.ms]"),
    (BROKER, "1", "ssl.key.password", SET, "s", REQUEST,
     "Cannot update these configs dynamically: [ssl.key.password]"),
    (BROKER, "", "ssl.client.auth", SET, "none", REQUEST,
     "Cannot update these configs at default cluster level, broker id must be specified:"
     " [ssl.client.auth]"),
    (LOGGER, "1", "root", SET, "DEBUG", REQUEST, "Unknown resource type 8"),
    (GROUP, "", "consumer.session.timeout.ms", SET, "50000", REQUEST,
     "Default group resources are not allowed."),
    (GROUP, "g", "foo", SET, "1", CONFIG, "Unknown group config name: foo"),
    (GROUP, "g", "consumer.session.timeout.ms", SET, "1", CONFIG,
     "consumer.session.timeout.ms must be greater than or equal to"
     " group.consumer.min.session.timeout.ms"),
    (GROUP, "g", "consumer.heartbeat.interval.ms", SET, "60000", CONFIG,
     "consumer.heartbeat.interval.ms must be less than or equal to"
     " group.consumer.max.heartbeat.interval.ms"),
    (GROUP, "g", "streams.num.standby.replicas", SET, "3", CONFIG,
     "streams.num.standby.replicas must be less than or equal to"
     " group.streams.max.standby.replicas"),
    (GROUP, "g", "share.auto.offset.reset", SET, "foo", CONFIG,
     "Invalid value foo for configuration share.auto.offset.reset: Invalid value `foo` for"
     " configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of"
     " the format 'by_duration:<PnDTnHnMn.nS>'."),
    (GROUP, "g", "share.isolation.level", SET, "foo", CONFIG,
     "Invalid value foo for configuration share.isolation.level: String must be one of:"
     " read_committed, read_uncommitted"),
    (METRICS, "", "interval.ms", SET, "5000", REQUEST, "Subscription name can't be empty"),
    (METRICS, "m", "foo", SET, "5000", REQUEST, "Unknown client metrics configuration: foo"),
    (METRICS, "m", "interval.ms", SET, "5", REQUEST,
     "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)"),
    (0, "t", "foo", SET, "1", REQUEST, "Unknown resource type 0"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "key", "operation", "value", "reason", "text"), REFUSED)
def test_refused_with_text(
    state: ClusterState,
    kind: int,
    name: str,
    key: str,
    operation: Operation,
    value: str | None,
    reason: ConfigRefusal,
    text: str,
) -> None:
    before = state.encode()
    assert alter(state, kind, name, (key, operation, value)) == ConfigRefused(reason, text)
    assert state.encode() == before


def test_a_config_stands_once_in_a_request(state: ClusterState) -> None:
    answer = alter(state, TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert answer == ConfigRefused(REQUEST, "Error due to duplicate config keys")


@pytest.mark.parametrize(
    ("steps", "stored"),
    [
        ([("cleanup.policy", APPEND, "compact")], "delete,compact"),
        ([("cleanup.policy", APPEND, "delete")], "delete"),
        ([("cleanup.policy", SUBTRACT, "foo")], "delete"),
        ([("cleanup.policy", SUBTRACT, "delete")], ""),
        ([("cleanup.policy", APPEND, "compact"), ("cleanup.policy", SUBTRACT, "delete")],
         "compact"),
        ([("cleanup.policy", SET, "compact"), ("cleanup.policy", DELETE, None)], None),
        ([("cleanup.policy", DELETE, "")], None),
    ],
)  # fmt: skip
def test_steps_on_a_list_begin_with_the_default(
    state: ClusterState, steps: list[tuple[Any, ...]], stored: str | None
) -> None:
    for step in steps:
        assert alter(state, TOPIC, "t", step) is None
    configs = state.topics.by_name["t"].configs
    assert configs.get("cleanup.policy") == stored
    assert configs["retention.ms"] == "7"


def test_a_secret_that_an_earlier_release_took_may_stay_until_it_is_removed(
    state: ClusterState,
) -> None:
    fold(state, ConfigsSet(BROKER, "1", {"ssl.key.password": "old"}))
    assert alter(state, BROKER, "1", ("log.retention.ms", SET, "1000")) is None
    assert alter(state, BROKER, "1", ("ssl.key.password", SET, "new")) is not None
    assert state.configs.get(BROKER, "1")["ssl.key.password"] == "old"
    assert alter(state, BROKER, "1", ("ssl.key.password", DELETE, None)) is None
    assert state.configs.get(BROKER, "1") == {"log.retention.ms": "1000"}


def test_deleting_an_unset_or_unknown_config_succeeds(state: ClusterState) -> None:
    position = state.position
    assert alter(state, TOPIC, "t", ("foo", DELETE, None)) is None
    assert state.position == position


def test_replacing_unsets_configs_that_are_not_named(state: ClusterState) -> None:
    change = ResourceChange(TOPIC, "t", [Change("preallocate", SET, "true")], replaces=True)
    assert propose(state, change) == [None]
    assert state.topics.by_name["t"].configs == {"preallocate": "true"}


def test_resources_are_independent_and_each_is_whole(state: ClusterState) -> None:
    answers = propose(
        state,
        ResourceChange(TOPIC, "t", [Change("preallocate", SET, "true"), Change("foo", SET, "1")]),
        ResourceChange(GROUP, "g", [Change("consumer.session.timeout.ms", SET, "50000")]),
        ResourceChange(BROKER, "", [Change("log.retention.ms", SET, "2000")]),
        ResourceChange(BROKER, "1", [Change("log.retention.ms", SET, "3000")]),
        ResourceChange(METRICS, "m", [Change("interval.ms", SET, "5000")]),
    )
    assert [each is None for each in answers] == [False, True, True, True, True]
    assert state.topics.by_name["t"].configs == {"retention.ms": "7"}
    assert state.configs.get(GROUP, "g") == {"consumer.session.timeout.ms": "50000"}
    assert state.configs.get(BROKER, "") == {"log.retention.ms": "2000"}
    assert state.configs.get(BROKER, "1") == {"log.retention.ms": "3000"}
    assert state.configs.names(METRICS) == ["m"]


def test_validate_only_changes_nothing(state: ClusterState) -> None:
    before = state.encode()
    change = ResourceChange(TOPIC, "t", [Change("preallocate", SET, "true")])
    assert propose(state, change, validate_only=True) == [None]
    assert state.encode() == before


def test_the_table_drops_resources_without_configs() -> None:
    table = ConfigTable()
    table.fold_configs_set(ConfigsSet(GROUP, "g", {"b": "1", "a": "2"}))
    table.fold_configs_set(ConfigsSet(BROKER, "1", {"x": "1"}))
    table.fold_configs_set(ConfigsSet(BROKER, "1", {}))
    assert table.names(BROKER) == []
    assert table.get(BROKER, "1") == {}
    assert table.version == 3
    encoded = b"".join(table.encode().parts())
    assert encoded == msgspec.msgpack.encode([[GROUP, "g", {"a": "2", "b": "1"}]])
    copy = ConfigTable()
    copy.decode([[GROUP, "g", {"a": "2", "b": "1"}]])
    assert copy.get(GROUP, "g") == {"a": "2", "b": "1"}
    assert b"".join(copy.encode().parts()) == encoded


def test_the_first_names_are_those_of_a_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs_module, "FIRST_NAMES", 5)
    rng, table = Random(1), ConfigTable()
    for _ in range(2_000):
        name, configs = f"{rng.randrange(40):02}", {"a": "1"} if rng.random() < 0.5 else {}
        table.fold_configs_set(ConfigsSet(METRICS, name, configs))
        assert table.first_names(METRICS) == table.names(METRICS)[:5]


def test_names_are_sorted_again_once_many_of_the_first_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To sort a million names again at each call would block the event loop for long."""
    looks = Mock(side_effect=nsmallest)
    monkeypatch.setattr(configs_module, "nsmallest", looks)
    table = ConfigTable()
    for at in range(2_000):
        table.fold_configs_set(ConfigsSet(METRICS, f"{at:04}", {"a": "1"}))
    for at in range(1_000):
        table.fold_configs_set(ConfigsSet(METRICS, f"{at:04}", {}))
    assert table.first_names(METRICS) == [f"{at:04}" for at in range(1_000, 1_500)]
    assert looks.call_count == 1
