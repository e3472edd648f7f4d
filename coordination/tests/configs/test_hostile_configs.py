"""Config values as long as a client likes: refused before they are parsed."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate_coordination.configs.validation import split_list
from tidegate_coordination.events.cluster import (
    ClusterCreated,
    Endpoint,
    GatewayRegistered,
    TopicCreated,
)
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.rules.configs import (
    MAX_CONFIG_BYTES,
    Change,
    ConfigRefusal,
    Operation,
    ResourceChange,
    SetConfigs,
)
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.rules.topics import (
    MAX_PARTITIONS_PER_REQUEST,
    CreatePartitions,
    Growth,
    TopicRefusal,
)
from tidegate_coordination.state.cluster import ClusterState

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
LIST = "leader.replication.throttled.replicas"
SPACES = "a" + " " * 4_000_000 + "b"


@pytest.fixture
def state() -> ClusterState:
    state = ClusterState()
    registered = GatewayRegistered(1, 1, "k", "", (Endpoint("P", "h", 1),), "0", 0)
    topics = [TopicCreated(bytes([index]) * 16, f"t{index}", 1, 1, {}) for index in range(3)]
    state.apply(1, Entry(1, b"n", 0, 1_000_000, (ClusterCreated("cluster", 1), registered)))
    state.apply(2, Entry(1, b"n", 1, 1_000_000, tuple(topics)))
    return state


def alter(state: ClusterState, kind: int, name: str, *changes: tuple[Any, ...]) -> Any:
    rows = [Change(*each) for each in changes]
    view = View(state, 1, 1_000_000, 1_000_000)
    [answer] = SetConfigs([ResourceChange(kind, name, rows)]).decide(view).answer
    return answer


def test_a_run_of_spaces_is_split_at_once() -> None:
    assert split_list(SPACES) == (SPACES,)
    assert split_list(" a ,\tb, ,c ") == ("a", "b", "", "c")


@pytest.mark.parametrize("operation", [Operation.SET, Operation.APPEND, Operation.SUBTRACT])
def test_a_value_of_megabytes_is_refused_unread(state: ClusterState, operation: Operation) -> None:
    refused = alter(state, TOPIC, "t0", (LIST, operation, SPACES))
    assert refused.reason is ConfigRefusal.INVALID_CONFIG
    assert f"{MAX_CONFIG_BYTES} are kept" in refused.text


@pytest.mark.parametrize(
    ("kind", "name", "config"),
    [
        (BROKER, "", "leader.replication.throttled.rate"),
        (METRICS, "m", "metrics"),
        (GROUP, "g", "x"),
    ],
)
def test_the_bound_holds_for_every_resource(
    state: ClusterState, kind: int, name: str, config: str
) -> None:
    refused = alter(state, kind, name, (config, Operation.SET, "x" * MAX_CONFIG_BYTES))
    assert f"{MAX_CONFIG_BYTES} are kept" in refused.text


def test_appending_may_not_pass_the_bound_either(state: ClusterState) -> None:
    half = ",".join(f"{index}:1" for index in range(6_000))
    other = ",".join(f"{index}:2" for index in range(6_000))
    state.topics.by_name["t0"].configs[LIST] = half
    assert alter(state, TOPIC, "t0", (LIST, Operation.APPEND, "7:7")) is None
    refused = alter(state, TOPIC, "t0", (LIST, Operation.APPEND, other))
    assert f"{MAX_CONFIG_BYTES} are kept" in refused.text


def test_a_node_id_of_thousands_of_digits_is_no_number(state: ClusterState) -> None:
    refused = alter(state, BROKER, "1" * 5_000, ("log.retention.ms", Operation.SET, "1"))
    assert refused.reason is ConfigRefusal.INVALID_REQUEST
    assert "must be an integer" in refused.text


def test_the_bound_of_new_partitions_is_of_all_topics_together(state: ClusterState) -> None:
    growths = [Growth(f"t{index}", MAX_PARTITIONS_PER_REQUEST // 2 + 1) for index in range(3)]
    decided = CreatePartitions(growths).decide(View(state, 1, 1_000_000, 1_000_000))
    first, second, third = decided.answer
    assert (first, second) == (None, None)
    assert third is not None
    assert third.reason is TopicRefusal.TOO_MUCH
    assert len(decided.events) == 2
