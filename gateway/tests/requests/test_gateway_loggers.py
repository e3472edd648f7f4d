"""Levels of log lines that clients change; the cases and texts are Apache Kafka 4.3.1's answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.requests.test_admin_configs import DELETE, LOGGER, SET, alter, describe
from tests.worlds.admin_world import AdminGateway, admin_world
from tidegate_gateway.requests.configs.gateway_loggers import LOGGERS
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_configs
from tidegate_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

ROOT = Path(__file__).parents[3]
NAME = "tidegate.produce"
CANNOT = f"Cannot set the log level of {NAME} to"
REQUEST, CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
VALID = (
    "it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
)


async def levels(gateway: AdminGateway) -> dict[str, str]:
    result = await describe(gateway, LOGGER, "1", include_synonyms=True)
    assert {
        (each.config_source, each.read_only, each.documentation) for each in result.configs
    } == {(6, False, "")}
    return {each.name: each.value for each in result.configs}


async def test_a_level_holds_until_it_is_removed() -> None:
    async with admin_world() as [gateway]:
        assert set((await levels(gateway)).values()) == {"INFO"}
        assert await alter(gateway, LOGGER, "1", (NAME, SET, "DEBUG")) == (0, None)
        assert await alter(gateway, LOGGER, "1", ("root", SET, "WARN")) == (0, None)
        found = await levels(gateway)
        assert (found.pop(NAME), set(found.values())) == ("DEBUG", {"WARN"})
        assert gateway.log_levels.of(NAME) == "DEBUG"
        assert await alter(gateway, LOGGER, "1", (NAME, DELETE, None)) == (0, None)
        assert set((await levels(gateway)).values()) == {"WARN"}
        only = await describe(gateway, LOGGER, "1", keys=["root"])
        assert [each.name for each in only.configs] == ["root"]


async def test_another_gateway_has_its_own_levels() -> None:
    async with admin_world({}, {}) as [one, two]:
        assert await alter(one, LOGGER, "1", (NAME, SET, "DEBUG")) == (0, None)
        result = await describe(two, LOGGER, "2")
        assert {each.value for each in result.configs} == {"INFO"}


@pytest.mark.parametrize(
    ("node", "change", "code", "text"),
    [
        ("1", (NAME, SET, "debug"), CONFIG, f"{CANNOT} debug as {VALID}"),
        ("1", (NAME, SET, ""), CONFIG, f"{CANNOT}  as {VALID}"),
        ("1", (NAME, SET, None), REQUEST, f"Null value not supported for : {NAME}"),
        ("1", (NAME, 2, "INFO"), REQUEST, "APPEND operation is not allowed for the BROKER_LOGGER"),
        (
            "1",
            (NAME, 3, "INFO"),
            REQUEST,
            "SUBTRACT operation is not allowed for the BROKER",
        ),
        ("1", ("nope", SET, "INFO"), CONFIG, "Logger nope does not exist!"),
        ("1", ("nope", DELETE, None), CONFIG, "Logger nope does not exist!"),
        ("1", ("root", DELETE, None), REQUEST, "Removing the log level of the root logger is not"),
        ("9", (NAME, SET, "INFO"), REQUEST, "Unexpected node id. Expected 1, but received 9"),
        ("x", (NAME, SET, "INFO"), REQUEST, "Node id must be an integer, but it is: x"),
        ("", (NAME, SET, "INFO"), REQUEST, "Node id must be an integer, but it is: "),
    ],
)
async def test_refusals(
    node: str, change: tuple[str, int, str | None], code: ErrorCode, text: str
) -> None:
    async with admin_world() as [gateway]:
        before = await levels(gateway)
        valid = ("tidegate.wal", SET, "ERROR")
        found, message = await alter(gateway, LOGGER, node, valid, change)
        assert found == code
        assert (message or "").startswith(text)
        assert await levels(gateway) == before


async def test_validation_changes_nothing_and_a_resource_may_appear_once() -> None:
    row = AlterConfigsResource(LOGGER, "1", [AlterableConfig(NAME, SET, "TRACE")])
    async with admin_world() as [gateway]:
        before = await levels(gateway)
        checked = await gateway.ask(IncrementalAlterConfigsRequest([row], True))
        assert [each.error_code for each in checked.responses] == [0]
        twice = await gateway.ask(IncrementalAlterConfigsRequest([row, row]))
        assert [(each.error_code, each.error_message) for each in twice.responses] == [
            (REQUEST, "Each resource must appear at most once.")
        ] * 2
        assert await levels(gateway) == before


async def test_alter_configs_does_not_know_loggers() -> None:
    async with admin_world() as [gateway]:
        change = alter_configs.AlterableConfig(NAME, "INFO")
        rows = [alter_configs.AlterConfigsResource(LOGGER, "1", [change])]
        [answer] = (await gateway.ask(alter_configs.AlterConfigsRequest(rows))).responses
        assert (answer.error_code, answer.error_message) == (REQUEST, "Unknown resource type 8")


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ("", "Broker id must not be empty"),
        ("9", "Unexpected broker id, expected 1 but received 9"),
        ("x", "Broker id must be an integer, but it is: x"),
    ],
)
async def test_other_gateways_levels_are_not_described(node: str, text: str) -> None:
    async with admin_world() as [gateway]:
        result = await describe(gateway, LOGGER, node)
        assert (result.error_code, result.error_message) == (REQUEST, text)


def test_all_loggers_of_a_gateway_are_listed() -> None:
    found: set[str] = set()
    for package in ("gateway/tidegate_gateway", "coordination", "storage", "runtime"):
        for path in (ROOT / package).rglob("*.py"):
            if not {"tests", "tidegate_pipeline"} & set(path.parts):
                found |= set(re.findall(r'get_logger\("(tidegate[\w.]*)"', path.read_text()))
    assert sorted(found) == sorted(LOGGERS)
