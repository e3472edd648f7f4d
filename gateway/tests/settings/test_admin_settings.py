"""The settings of a gateway: lookup, errors, and dynamic configs."""

import ast
import re
from pathlib import Path

import pytest

import tidegate_gateway
from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.definition import Update
from tidegate_coordination.configs.topic_configs import TOPIC_CONFIGS
from tidegate_coordination.events.cluster import ConfigsSet
from tidegate_coordination.state.configs import ConfigTable
from tidegate_gateway.client_door import max_connections
from tidegate_gateway.parts.writes import wal_settings
from tidegate_gateway.produce.wal_settings import WalSettings
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_runtime.settings_texts import SettingsError

PACKAGE = Path(tidegate_gateway.__file__).parent
REQUESTS = sorted((PACKAGE / "requests").rglob("*.py"))


def test_typed_values_and_defaults() -> None:
    settings = BrokerSettings({"num.partitions": "4", "auto.create.topics.enable": "False"})
    assert settings.int("num.partitions") == 4
    assert settings.int("wal.max.object.bytes") == 8 * 1024 * 1024
    assert settings.bool("auto.create.topics.enable") is False
    assert settings.bool("delete.topic.enable") is True
    assert settings.float("wal.put.budget.per.second") == 8.0
    assert settings.text("record.validation") == "full"
    assert settings.text("broker.rack") == ""
    assert settings.items("listeners") == ("PLAINTEXT://:9092",)
    assert settings.items("advertised.listeners") == ()
    assert settings.is_set("num.partitions")
    assert not settings.is_set("node.id")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"num.partition": "1"}, "unknown setting num.partition; did you mean num.partitions?"),
        ({"wal.linger": "1"}, "unknown setting wal.linger; did you mean wal.linger.ms?"),
        ({"\u2603": "1"}, "unknown setting \u2603"),
        ({"num.partitions": "0"},
         "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ({"record.validation": "some"},
         "Invalid value some for configuration record.validation: String must be one of: header,"
         " full"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(values: dict[str, str], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        BrokerSettings(values)
    assert str(caught.value) == text


def test_a_number_without_a_value_is_explained() -> None:
    with pytest.raises(SettingsError, match=r"^log.retention.ms is not set"):
        BrokerSettings().int("log.retention.ms")


def test_kafka_settings_without_meaning_are_collected() -> None:
    settings = BrokerSettings(
        {"log.dirs": "/data", "num.io.threads": "8", "log.retention.ms": "5", "wal.linger.ms": "1"}
    )
    assert settings.meaningless == ["log.dirs", "num.io.threads"]


def test_removed_settings_are_collected_and_have_no_effect() -> None:
    values = {"forwarding.after.lost.races": "many", "wal.efficient.object.bytes": "1"}
    settings = BrokerSettings({**values, "log.dirs": "/data"})
    assert settings.removed == ["forwarding.after.lost.races", "wal.efficient.object.bytes"]
    assert settings.meaningless == ["log.dirs"]


def test_settings_that_the_gateway_reads_are_shown_as_effective() -> None:
    read = {
        name
        for path in sorted(PACKAGE.rglob("*.py"))
        for name in re.findall(r'\.(?:int|float|bool|text|items)\("([a-z.]+)"', path.read_text())
    }
    assert "offsets.topic.num.partitions" in read
    assert [name for name in sorted(read) if not BROKER_CONFIGS[name].meaningful] == []


def test_the_heads_of_request_modules_name_settings_that_exist() -> None:
    heads = [ast.get_docstring(ast.parse(path.read_text())) or "" for path in REQUESTS]
    named = {name for head in heads for name in re.findall(r"\b(?:[a-z]+\.){2,}[a-z]+\b", head)}
    known = {*BROKER_CONFIGS, *TOPIC_CONFIGS, "tidegate.metadata.version"}
    assert len(named) > 3
    assert named <= known


def test_the_writers_own_defaults_are_those_of_the_settings() -> None:
    assert wal_settings(BrokerSettings()) == WalSettings()


def test_the_limits_of_connections_are_read_once() -> None:
    settings = BrokerSettings()
    assert settings.int("max.connections") == max_connections(settings, 1 << 20) == 10_000
    for name in ("max.connections", "max.connections.per.ip"):
        assert BROKER_CONFIGS[name].update is Update.READ_ONLY


def test_dynamic_configs_override_layer_by_layer() -> None:
    settings = BrokerSettings({"node.id": "7", "message.max.bytes": "10"})
    configs = ConfigTable()
    configs.fold_configs_set(ConfigsSet(4, "", {"message.max.bytes": "20"}))
    assert settings.int("message.max.bytes") == 10
    assert settings.current(configs).int("message.max.bytes") == 20
    configs.fold_configs_set(ConfigsSet(4, "7", {"message.max.bytes": "30"}))
    configs.fold_configs_set(ConfigsSet(4, "8", {"message.max.bytes": "40"}))
    assert settings.current(configs).int("message.max.bytes") == 30
    assert settings.layers(configs).text("message.max.bytes") == "30"
