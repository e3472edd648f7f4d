"""Stored config values that no rule would accept today do no harm.

If the config decides which records are removed, the careful value replaces such a value. Otherwise
the next layer's value replaces it.
"""

import pytest

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.definition import LONG_MAX, Definition
from tidegate_coordination.configs.effective import (
    STAND_INS,
    BrokerLayers,
    Source,
    effective_group_config,
    effective_topic_config,
)
from tidegate_coordination.configs.group_configs import GROUP_CONFIGS
from tidegate_coordination.configs.topic_configs import TOPIC_CONFIGS
from tidegate_coordination.configs.topic_settings import compile_topic_settings
from tidegate_coordination.configs.validation import InvalidConfig, parse

HOSTILE = (
    "", "-1", "0", "1", "2", "13", "999", "1048575", "1048576", "2147483647", "2147483648", "-2",
    str(LONG_MAX), str(LONG_MAX + 1), str(-LONG_MAX - 1), "0.0", "0.5", "1.1", "-0.1", "nan", "inf",
    "1e999", "compact", "delete,", "compact,delete", "none", "CreateTime", "LogAppendTime", "gzip",
    "producer", "true", "TRUE", " 5 ", "-131073", ",", "\x00", "\u0663", "9" * 5000,
)  # fmt: skip
"""Some are good for some configs."""


def brokers_names(table: dict[str, Definition]) -> list[tuple[str, str]]:
    return [
        (name, other)
        for name, each in table.items()
        if each.synonym
        for other in (each.synonym, *(stand_in for stand_in, _ in STAND_INS.get(each.synonym, ())))
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_value_of_any_layer_breaks_a_topic(text: str) -> None:
    for name, broker_name in brokers_names(TOPIC_CONFIGS):
        for layers in (
            BrokerLayers(dynamic={broker_name: text}),
            BrokerLayers(dynamic_default={broker_name: text}),
            BrokerLayers(static={broker_name: text}),
        ):
            compile_topic_settings({}, layers)
            shown = effective_topic_config({}, layers, name).value
            assert shown is None or parse(TOPIC_CONFIGS[name], shown) is not None
    for name in TOPIC_CONFIGS:
        compile_topic_settings({name: text}, BrokerLayers())
        effective_topic_config({name: text}, BrokerLayers(), name)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_value_that_a_broker_accepts_its_topics_accept(text: str) -> None:
    """A value that passes the check of a broker config also passes that of the topic config.

    Topic configs without an effect are left out.
    """
    wrong: list[tuple[str, str]] = []
    for name, broker_name in brokers_names(TOPIC_CONFIGS):
        if not TOPIC_CONFIGS[name].meaningful:
            continue
        try:
            parse(BROKER_CONFIGS[broker_name], text)
        except InvalidConfig:
            continue
        layers = BrokerLayers(dynamic_default={broker_name: text})
        layers.default_of(TOPIC_CONFIGS[name], lambda *each: wrong.append(each))
    assert not wrong


@pytest.mark.parametrize("text", HOSTILE)
def test_no_value_of_a_broker_breaks_a_group(text: str) -> None:
    for name, broker_name in brokers_names(GROUP_CONFIGS):
        effective_group_config({}, BrokerLayers(dynamic_default={broker_name: text}), name)


def test_an_unreadable_config_removes_nothing() -> None:
    wrong: list[tuple[str, str]] = []
    configs = {"retention.ms": "soon", "cleanup.policy": "burn", "max.message.bytes": "many"}
    settings = compile_topic_settings(
        configs, BrokerLayers(static={"message.max.bytes": "77"}), lambda *e: wrong.append(e)
    )
    assert settings.retention_ms == -1
    assert not settings.is_compacted
    assert not settings.is_deleted_by_policy
    assert settings.max_message_bytes == 77
    assert sorted(wrong) == sorted(configs.items())


def test_a_wrong_default_of_all_gateways_removes_nothing() -> None:
    """Another layer has a valid value, but the value that the operator intended is unknown."""
    wrong: list[tuple[str, str]] = []
    layers = BrokerLayers(
        dynamic_default={"log.retention.ms": "0"}, static={"log.retention.ms": "5"}
    )
    assert compile_topic_settings({}, layers, lambda *e: wrong.append(e)).retention_ms == -1
    assert wrong == [("log.retention.ms", "0")]


def test_an_invalid_stored_value_is_shown_with_the_effective_one() -> None:
    shown = effective_topic_config({"retention.ms": "soon"}, BrokerLayers(), "retention.ms")
    assert (shown.value, shown.source) == ("-1", Source.DYNAMIC_TOPIC)
    assert shown.synonyms[0].value == "soon"


@pytest.mark.parametrize(
    "name", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
)
def test_no_retention_at_all_is_refused_as_by_kafka(name: str) -> None:
    text = "log.retention.ms must be unlimited"
    with pytest.raises(InvalidConfig, match=text):
        parse(BROKER_CONFIGS[name], "0")
    assert parse(BROKER_CONFIGS[name], "-2") == -2
