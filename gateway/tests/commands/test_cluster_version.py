"""`tidegate gateway version`: its output, and when it raises the version."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.worlds.admin_world import AdminGateway, admin_world
from tidegate_coordination.events.metadata_versions import FEATURE_NAME, NEWEST
from tidegate_coordination.rules.gateways import Register
from tidegate_gateway.cli.gateways.cluster_version import VersionOptions, version


@asynccontextmanager
async def upgraded(*levels: int) -> AsyncIterator[AdminGateway]:
    """A cluster of version 1.  levels: the highest version that each gateway reads."""
    async with admin_world(*({} for _ in levels)) as gateways:
        for node_id, (each, level) in enumerate(zip(gateways, levels, strict=True), 1):
            each.coordinator.incarnation = 0
            answer = await each.coordinator.propose(
                Register(node_id, f"k{node_id}", "", (), "9.9", "cluster", highest_version=level)
            )
            assert isinstance(answer, int)
            each.coordinator.incarnation = answer
        await gateways[0].coordinator.catch_up()
        yield gateways[0]


async def said(gateway: AdminGateway, options: VersionOptions) -> tuple[int, list[str]]:
    lines: list[str] = []
    return await version(gateway.coordinator, options, lines.append), lines


async def test_it_shows_the_version_and_how_to_raise_it() -> None:
    async with upgraded(NEWEST, NEWEST - 1) as gateway:
        code, [line] = await said(gateway, VersionOptions())
        assert (code, gateway.state.metadata_version) == (0, 1)
        assert line.startswith(f"{FEATURE_NAME} is 1. All gateways can read {NEWEST - 1}: ")
        assert f"`tidegate gateway version --raise {NEWEST - 1}` raises it" in line


async def test_it_raises_the_version_once() -> None:
    async with upgraded(NEWEST) as gateway:
        for _ in range(2):
            code, lines = await said(gateway, VersionOptions(NEWEST, yes=True))
            wanted = f"{FEATURE_NAME} is {NEWEST}, the highest that all gateways can read."
            assert (code, lines) == (0, [wanted])
            assert gateway.state.metadata_version == NEWEST


async def test_a_dry_run_changes_nothing() -> None:
    async with upgraded(NEWEST) as gateway:
        code, lines = await said(gateway, VersionOptions(NEWEST, only_checks=True))
        assert (code, lines) == (0, [f"{FEATURE_NAME} is 1, and can be raised to {NEWEST}."])
        assert gateway.state.metadata_version == 1


@pytest.mark.parametrize("only_checks", [True, False])
async def test_a_gateway_that_cannot_read_the_version_is_named(
    only_checks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    async with upgraded(NEWEST, NEWEST - 1) as gateway:
        options = VersionOptions(NEWEST, only_checks=only_checks, yes=True)
        assert await said(gateway, options) == (1, [])
        assert f"gateway 2 (release 9.9, up to {NEWEST - 1})" in capsys.readouterr().err
        assert gateway.state.metadata_version == 1


async def test_without_a_terminal_it_wants_to_be_agreed_to_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with upgraded(NEWEST) as gateway:
        assert await said(gateway, VersionOptions(NEWEST)) == (1, [])
        assert "give --yes" in capsys.readouterr().err
        assert gateway.state.metadata_version == 1


async def test_json_has_both_versions() -> None:
    async with upgraded(NEWEST - 1) as gateway:
        code, [line] = await said(gateway, VersionOptions(as_json=True))
        assert (code, json.loads(line)) == (0, {"metadata_version": 1, "readable": NEWEST - 1})
