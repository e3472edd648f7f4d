"""The config tables against what Apache Kafka's jars and a running broker said."""

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS, KAFKA_BROKER_CONFIGS
from tidegate_coordination.configs.definition import ConfigType, Definition, Update
from tidegate_coordination.configs.effective import (
    BrokerLayers,
    Effective,
    Source,
    effective_broker_config,
    effective_client_metrics_config,
    effective_group_config,
    effective_topic_config,
)
from tidegate_coordination.configs.group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from tidegate_coordination.configs.own_settings import OWN_SETTINGS
from tidegate_coordination.configs.topic_configs import TOPIC_CONFIGS
from tidegate_coordination.configs.topic_settings import compile_topic_settings
from tidegate_coordination.configs.validation import InvalidConfig, parse

FACTS = Path(__file__).parents[1] / "facts"
KAFKA: dict[str, dict[str, dict[str, Any]]] = json.loads((FACTS / "kafka_configs.json").read_text())
TABLES = {
    "topic": {name: each for name, each in TOPIC_CONFIGS.items() if each.listed},
    "broker": KAFKA_BROKER_CONFIGS,
    "group": GROUP_CONFIGS,
    "client_metrics": CLIENT_METRICS_CONFIGS,
}
FIXED_HERE = {
    "config.providers",
    "max.connection.creation.rate",
    "max.connections.per.ip.overrides",
    "listeners",
    "listener.security.protocol.map",
    "max.connections",
    "max.connections.per.ip",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
}
DEFAULTS_HERE = {"max.connections": "10000", "node.id": "1"}
RECORDED = BrokerLayers(
    {"log.retention.ms": "3000"}, {"log.retention.ms": "2000", "min.insync.replicas": "1"}
)


@pytest.mark.parametrize("kind", TABLES)
def test_names_types_and_defaults_are_kafkas(kind: str) -> None:
    ours = {name: (each.type.name, each.default) for name, each in TABLES[kind].items()}
    kafkas = {name: (each["type"], each["default"]) for name, each in KAFKA[kind].items()}
    if kind == "broker":
        assert {name: ours.pop(name)[1] for name in DEFAULTS_HERE} == DEFAULTS_HERE
        assert kafkas.pop("node.id") == ("INT", None)
        assert kafkas.pop("max.connections") == ("INT", "2147483647")
    assert ours == kafkas


@pytest.mark.parametrize("kind", ["topic", "group"])
def test_synonyms_are_kafkas(kind: str) -> None:
    ours = {name: each.synonym for name, each in TABLES[kind].items()}
    assert ours == {name: each.get("synonym") for name, each in KAFKA[kind].items()}


def test_the_configs_that_may_change_while_running_are_kafkas() -> None:
    ours = {name: each.update.value for name, each in KAFKA_BROKER_CONFIGS.items()}
    kafkas = {name: each["update"] for name, each in KAFKA["broker"].items()}
    differing = {name for name in ours if ours[name] != kafkas[name]}
    assert differing == FIXED_HERE
    assert all(BROKER_CONFIGS[name].update is Update.READ_ONLY for name in FIXED_HERE)


def accepts(definition: Definition, text: str) -> bool:
    try:
        parse(definition, text)
    except InvalidConfig:
        return False
    return True


@pytest.mark.parametrize("kind", TABLES)
def test_bounds_and_choices_are_kafkas(kind: str) -> None:
    for name, fact in KAFKA[kind].items():
        definition = TABLES[kind][name]
        low, _, high = fact.get("range", "[...]").strip("[]").partition("...")
        for bound, outside in ((low.strip(","), -1), (high.strip(","), 1)):
            if bound:
                assert accepts(definition, bound), name
                assert not accepts(definition, str(int(bound) + outside)), name
        if "choices" in fact:
            assert all(accepts(definition, choice) for choice in fact["choices"]), name
            assert not accepts(definition, "something else"), name


@pytest.mark.parametrize("table", [TOPIC_CONFIGS, GROUP_CONFIGS, BROKER_CONFIGS])
def test_every_default_passes_its_own_check_and_every_config_is_explained(
    table: dict[str, Definition],
) -> None:
    for name, definition in table.items():
        assert definition.documentation, name
        if definition.default is not None:
            parse(definition, definition.default)


def test_own_settings_do_not_hide_kafkas() -> None:
    assert not {each.name for each in OWN_SETTINGS} & set(KAFKA_BROKER_CONFIGS)
    assert all(each.meaningful for each in OWN_SETTINGS)
    assert BROKER_CONFIGS["metadata.log"].type is ConfigType.PASSWORD


def row(effective: Effective, *, read_only: bool = False) -> dict[str, Any]:
    sources = {
        Source.DEFAULT: "DEFAULT_CONFIG",
        Source.STATIC_BROKER: "STATIC_BROKER_CONFIG",
        Source.DYNAMIC_BROKER: "DYNAMIC_BROKER_CONFIG",
        Source.DYNAMIC_DEFAULT_BROKER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
        Source.DYNAMIC_TOPIC: "DYNAMIC_TOPIC_CONFIG",
        Source.DYNAMIC_GROUP: "DYNAMIC_GROUP_CONFIG",
    }
    return {
        "name": effective.definition.name,
        "value": effective.value,
        "source": sources[effective.source],
        "readonly": read_only,
        "sensitive": effective.definition.is_sensitive,
        "type": effective.definition.type.name,
        "synonyms": [[each.name, each.value, sources[each.source]] for each in effective.synonyms],
    }


def recorded(name: str) -> list[dict[str, Any]]:
    answer = json.loads((FACTS / f"{name}.json").read_text())
    configs: list[dict[str, Any]] = answer["configs"]
    return configs


def test_a_whole_topic_is_described_as_by_kafka() -> None:
    configs = {"retention.ms": "1000", "cleanup.policy": "delete"}
    ours = [row(effective_topic_config(configs, RECORDED, name)) for name in TABLES["topic"]]
    assert ours == recorded("describe_topic")


def test_a_whole_group_is_described_as_by_kafka() -> None:
    configs = {"consumer.session.timeout.ms": "50000"}
    ours = [row(effective_group_config(configs, RECORDED, name)) for name in GROUP_CONFIGS]
    assert ours == recorded("describe_group")


def test_a_whole_broker_is_described_as_by_kafka() -> None:
    kafkas = [each for each in recorded("describe_broker") if each["name"] not in FIXED_HERE]
    static = {
        each["name"]: each["value"] for each in kafkas if each["source"] == "STATIC_BROKER_CONFIG"
    }
    layers = BrokerLayers(RECORDED.dynamic, RECORDED.dynamic_default, static)
    ours: list[dict[str, Any]] = []
    for each in kafkas:
        effective = effective_broker_config(layers, each["name"])
        read_only = effective.definition.update is Update.READ_ONLY
        ours.append(row(effective, read_only=read_only))
    own_default = next(each for each in ours if each["name"] == "node.id")
    assert own_default["synonyms"].pop() == ["node.id", "1", "DEFAULT_CONFIG"]
    assert ours == kafkas


def test_client_metrics_name_only_configs_that_are_set() -> None:
    unset = effective_client_metrics_config({}, "interval.ms")
    assert (unset.value, unset.source, unset.synonyms) == ("300000", Source.DEFAULT, ())
    is_set = effective_client_metrics_config({"interval.ms": "5000"}, "interval.ms")
    assert (is_set.value, is_set.source) == ("5000", Source.DYNAMIC_CLIENT_METRICS)


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.minutes": "5", "log.retention.hours": "1"}, 300_000),
        ({"log.retention.ms": "7", "log.retention.minutes": "5"}, 7),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.hours": "-5"}, -1),
        ({"log.retention.ms": "-2"}, -1),
        ({"log.retention.ms": "-9223372036854775808"}, -1),
        ({"log.retention.ms": "-2", "log.retention.hours": "1"}, -1),
    ],
)
def test_coarser_retention_stands_in_for_finer(static: dict[str, str], retention_ms: int) -> None:
    settings = compile_topic_settings({}, BrokerLayers(static=static))
    assert settings.retention_ms == retention_ms


def test_a_broker_default_is_overridden_layer_by_layer() -> None:
    name = "log.message.timestamp.type"
    static = BrokerLayers(static={name: "LogAppendTime"})
    assert compile_topic_settings({}, static).timestamp_type_is_append
    dynamic = BrokerLayers({name: "CreateTime"}, {name: "LogAppendTime"})
    assert not compile_topic_settings({}, dynamic).timestamp_type_is_append
    own = compile_topic_settings({"message.timestamp.type": " LogAppendTime "}, dynamic)
    assert own.timestamp_type_is_append


@pytest.mark.parametrize(
    ("policy", "is_compacted", "is_deleted"),
    [
        ("delete", False, True),
        ("compact", True, False),
        ("compact , delete", True, True),
        ("", False, False),
    ],
)
def test_cleanup_policy(policy: str, is_compacted: bool, is_deleted: bool) -> None:
    settings = compile_topic_settings({"cleanup.policy": policy}, BrokerLayers())
    assert (settings.is_compacted, settings.is_deleted_by_policy) == (is_compacted, is_deleted)


def test_shown_values_are_canonical_and_secrets_are_not_shown() -> None:
    shown = effective_topic_config(
        {"cleanup.policy": "compact, delete"}, RECORDED, "cleanup.policy"
    )
    assert shown.value == "compact,delete"
    layers = BrokerLayers(static={"metadata.log": "postgres://user:secret@host/db"})
    secret = effective_broker_config(layers, "metadata.log")
    assert secret.value is None
    assert [each.value for each in secret.synonyms] == [None, None]
    assert layers.text("metadata.log") == "postgres://user:secret@host/db"
