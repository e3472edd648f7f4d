"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources on the wire."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.admin_world import AdminGateway, admin_world
from tidegate_coordination.rules.topic_names import illegal_topic_name
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_configs, incremental_alter_configs
from tidegate_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidegate_protocol.messages.list_config_resources import ListConfigResourcesRequest

FACTS = Path(__file__).parents[3] / "coordination" / "tests" / "facts"
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2
CONNECTIONS = (
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connection.creation.rate",
)
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
}
TYPES = ["UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS"]
TYPES += ["PASSWORD"]


async def alter(
    gateway: AdminGateway, kind: int, name: str, *changes: tuple[str, int, str | None]
) -> tuple[int, str | None]:
    rows = [incremental_alter_configs.AlterableConfig(*each) for each in changes]
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, rows)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
    [row] = (await gateway.ask(request)).responses
    assert (row.resource_type, row.resource_name) == (kind, name)
    return row.error_code, row.error_message


async def describe(
    gateway: AdminGateway, kind: int, name: str, *, version: int = 4, **options: Any
) -> Any:
    resource = DescribeConfigsResource(kind, name, options.pop("keys", None))
    response = await gateway.ask(DescribeConfigsRequest([resource], **options), version)
    [result] = response.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def rows(result: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "value": each.value,
            "source": SOURCES[each.config_source],
            "readonly": each.read_only,
            "sensitive": each.is_sensitive,
            "type": TYPES[each.config_type],
            "synonyms": [[row.name, row.value, SOURCES[row.source]] for row in each.synonyms],
        }
        for each in result.configs
    ]


def recorded(name: str) -> list[dict[str, Any]]:
    configs: list[dict[str, Any]] = json.loads((FACTS / name).read_text())["configs"]
    return configs


async def as_recorded(gateway: AdminGateway) -> None:
    """Set the configs for which Kafka's answers were recorded."""
    await gateway.create("t", retention_ms="1000", cleanup_policy="delete")
    assert await alter(gateway, BROKER, "1", ("log.retention.ms", SET, "3000")) == (0, None)
    defaults = [("log.retention.ms", SET, "2000"), ("min.insync.replicas", SET, "1")]
    assert await alter(gateway, BROKER, "", *defaults) == (0, None)


async def test_a_topic_is_described_whole_as_by_kafka() -> None:
    async with admin_world() as [gateway]:
        await as_recorded(gateway)
        result = await describe(gateway, TOPIC, "t", include_synonyms=True)
    assert rows(result) == recorded("describe_topic.json")


async def test_a_gateway_is_described_whole_as_by_kafka() -> None:
    kafkas = {each["name"]: each for each in recorded("describe_broker.json")}
    static = {
        name: each["value"]
        for name, each in kafkas.items()
        if each["source"] == "STATIC_BROKER_CONFIG"
    }
    async with admin_world(static) as [gateway]:
        await as_recorded(gateway)
        result = await describe(gateway, BROKER, "1", include_synonyms=True)

    ours = {each["name"]: each for each in rows(result)}
    once = ("sasl.enabled.mechanisms", "sasl.jaas.config", "config.providers")
    for name in ("listeners", "listener.security.protocol.map", *once, *CONNECTIONS):
        assert ours[name].pop("readonly") is not kafkas[name].pop("readonly")
    assert ours.pop("max.connections")["value"] == "10000"
    assert kafkas.pop("max.connections")["value"] == "2147483647"
    assert ours["node.id"]["synonyms"].pop() == ["node.id", "1", "DEFAULT_CONFIG"]
    assert {name: ours[name] for name in kafkas} == kafkas
    assert ours["wal.linger.ms"]["value"] == "250"
    assert ours["wal.linger.ms"]["readonly"]
    assert ours["metadata.log"]["sensitive"]
    assert ours["metadata.log"]["value"] is None


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_version_describes(version: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        await one.create("t", retention_ms="1000")
        keys = ["retention.ms", "no.such.config"]
        result = await describe(two, TOPIC, "t", version=version, keys=keys)
        explained: Any = None
        if version >= 3:
            options: dict[str, Any] = {"keys": keys, "include_documentation": True}
            explained = await describe(two, TOPIC, "t", version=version, **options)

    [config] = result.configs
    assert (config.name, config.value, config.config_source) == ("retention.ms", "1000", 1)
    assert config.synonyms == []
    if version >= 3:
        assert (config.config_type, config.documentation) == (5, None)
        assert explained.configs[0].documentation


async def test_the_default_of_all_gateways_shows_only_what_is_set() -> None:
    async with admin_world() as [gateway]:
        await as_recorded(gateway)
        result = await describe(gateway, BROKER, "", include_synonyms=True)
    assert [(each["name"], each["value"], each["synonyms"]) for each in rows(result)] == [
        (name, value, [[name, value, "DYNAMIC_DEFAULT_BROKER_CONFIG"]])
        for name, value in [("log.retention.ms", "2000"), ("min.insync.replicas", "1")]
    ]


async def test_groups_and_client_metrics() -> None:
    async with admin_world() as [gateway]:
        change = ("consumer.session.timeout.ms", SET, "50000")
        assert await alter(gateway, GROUP, "g", change) == (0, None)
        assert await alter(gateway, METRICS, "m", ("interval.ms", SET, "5000")) == (0, None)
        group = await describe(gateway, GROUP, "g")
        metrics = await describe(gateway, METRICS, "m")

    shown = {each.name: (each.value, each.config_source) for each in group.configs}
    assert len(shown) == 17
    assert shown["consumer.session.timeout.ms"] == ("50000", 8)
    assert shown["consumer.heartbeat.interval.ms"] == ("5000", 5)
    assert [(each.name, each.value, each.config_source) for each in metrics.configs] == [
        ("interval.ms", "5000", 7),
        ("match", "", 5),
        ("metrics", "", 5),
    ]


@pytest.mark.parametrize(
    ("kind", "name", "code", "text"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host"),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'a b'"),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION,
         "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "9", ErrorCode.INVALID_REQUEST,
         "Unexpected broker id, expected 1 or empty string, but received 9"),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (LOGGER, "9", ErrorCode.INVALID_REQUEST, "Unexpected broker id"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (METRICS, "", ErrorCode.INVALID_REQUEST,
         "Client metrics subscription name must not be empty"),
        (3, "x", ErrorCode.INVALID_REQUEST, "Unexpected resource type 3 for resource x"),
    ],
)  # fmt: skip
async def test_describe_configs_answers_an_error_for_unknown_resources(
    kind: int, name: str, code: ErrorCode, text: str
) -> None:
    async with admin_world() as [gateway]:
        result = await describe(gateway, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert text in result.error_message


async def test_broker_defaults_reach_topics() -> None:
    async with admin_world({"log.retention.hours": "1"}) as [gateway]:
        await gateway.create("t")
        keys = ["retention.ms"]
        [static] = (await describe(gateway, TOPIC, "t", keys=keys)).configs
        await alter(gateway, BROKER, "", ("log.retention.ms", SET, "2000"))
        [dynamic] = (await describe(gateway, TOPIC, "t", keys=keys)).configs
        await alter(gateway, BROKER, "", ("log.retention.ms", DELETE, None))
        [back] = (await describe(gateway, TOPIC, "t", keys=keys)).configs
    assert [each.value for each in (static, dynamic, back)] == ["3600000", "2000", "3600000"]
    assert dynamic.config_source == 3


@pytest.mark.parametrize("version", range(2))
async def test_incremental_changes(version: int) -> None:
    codec = incremental_alter_configs
    async with admin_world({}, {}) as [one, two]:
        await one.create("t", retention_ms="5")
        resources = [
            codec.AlterConfigsResource(
                TOPIC, "t", [codec.AlterableConfig("cleanup.policy", APPEND, "compact")]
            ),
            codec.AlterConfigsResource(TOPIC, "u", [codec.AlterableConfig("foo", 9, "1")]),
            codec.AlterConfigsResource(TOPIC, "nope", []),
            codec.AlterConfigsResource(TOPIC, "a b", []),
            codec.AlterConfigsResource(TOPIC, "", []),
            codec.AlterConfigsResource(GROUP, "g", [codec.AlterableConfig("foo", SET, "1")]),
            codec.AlterConfigsResource(GROUP, "h", []),
            codec.AlterConfigsResource(GROUP, "h", []),
        ]
        request = codec.IncrementalAlterConfigsRequest(resources)
        answer = await two.ask(request, version)
        await one.coordinator.catch_up()
        configs = one.state.topics.by_name["t"].configs

    once = "Each resource must appear at most once."
    assert [(each.error_code, each.error_message) for each in answer.responses] == [
        (0, None),
        (ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, illegal_topic_name("a b")),
        (ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (ErrorCode.INVALID_CONFIG, "Unknown group config name: foo"),
        (ErrorCode.INVALID_REQUEST, once),
        (ErrorCode.INVALID_REQUEST, once),
    ]
    assert configs == {"retention.ms": "5", "cleanup.policy": "delete,compact"}


@pytest.mark.parametrize("version", range(3))
async def test_alter_configs_replaces_everything(version: int) -> None:
    codec = alter_configs
    async with admin_world() as [gateway]:
        await gateway.create("t", retention_ms="5")
        change = codec.AlterableConfig("preallocate", "true")
        request = codec.AlterConfigsRequest(
            [codec.AlterConfigsResource(TOPIC, "t", [change])], True
        )
        assert (await gateway.ask(request, version)).responses[0].error_code == 0
        assert gateway.state.topics.by_name["t"].configs == {"retention.ms": "5"}
        request.validate_only = False
        request.resources.append(codec.AlterConfigsResource(TOPIC, "..", [change]))
        codes = [each.error_code for each in (await gateway.ask(request, version)).responses]
        assert codes == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert gateway.state.topics.by_name["t"].configs == {"preallocate": "true"}


async def test_many_large_resources_fit_in_several_entries() -> None:
    codec = incremental_alter_configs
    replicas = ",".join(f"{number}:1" for number in range(4700))
    name = "leader.replication.throttled.replicas"
    async with admin_world() as [gateway]:
        resources = []
        for number in range(35):
            await gateway.create(f"t{number}")
            change = codec.AlterableConfig(name, SET, replicas)
            resources.append(codec.AlterConfigsResource(TOPIC, f"t{number}", [change]))
        answer = await gateway.ask(codec.IncrementalAlterConfigsRequest(resources))
        assert {each.error_code for each in answer.responses} == {0}
        assert gateway.state.topics.by_name["t34"].configs == {name: replicas}


async def test_resources_are_listed() -> None:
    async with admin_world({}, {}) as [one, _]:
        await one.create("t")
        await alter(one, METRICS, "m", ("interval.ms", SET, "5000"))
        await alter(one, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
        listed = {}
        for version, types in [(0, []), (1, []), (1, [TOPIC, GROUP]), (1, [BROKER])]:
            answer = await one.ask(ListConfigResourcesRequest(list(types)), version)
            rows = [(each.resource_type, each.resource_name) for each in answer.config_resources]
            listed[version, tuple(types)] = rows
        wrong = await one.ask(ListConfigResourcesRequest([1]), 1)

    assert listed[0, ()] == [(METRICS, "m")]
    nodes = [(kind, node) for kind in (BROKER, LOGGER) for node in ("1", "2")]
    assert listed[1, ()] == [(TOPIC, "t"), *nodes, (METRICS, "m"), (GROUP, "g")]
    assert listed[1, (TOPIC, GROUP)] == [(TOPIC, "t"), (GROUP, "g")]
    assert listed[1, (BROKER,)] == [(BROKER, "1"), (BROKER, "2")]
    assert wrong.error_code == ErrorCode.UNSUPPORTED_VERSION
