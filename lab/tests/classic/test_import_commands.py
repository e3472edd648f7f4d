"""`tidegate pipeline import`: what it finds wrong, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trio.testing import MockClock

from tidegate_pipeline.commands import importing as command
from tidegate_pipeline.commands.import_sources import ImportOptions, opened_side
from tidegate_runtime.settings_texts import BadSource

from .test_imports import importing, linked
from .test_mirrors import mirroring


async def test_the_end_is_said_in_words_and_as_json(autojump_clock: MockClock) -> None:
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        for _ in range(3):
            world.write(2)
        await first.run()
        done = command._Done(first.driver, "local", 1, 2.0, is_stopped=False)
        assert done.exit_code == 0
        said = json.loads(command._json(done))
        size = sum(len(each.raw) for each in world.log().batches)
        assert (said["bytes"], said["batches"], said["partitions"]) == (size, 3, 2)
        assert said["problems"] == {}
        assert f"imported {size} bytes of 1 topics, 2 partitions: 3 batches" in command._text(done)
        first.driver.partitions[1].problem = "no"
        assert done.exit_code == 1
        assert command._text(done).endswith("PROBLEM t-1: no")
        assert json.loads(command._json(done))["problems"] == {"t-1": "no"}
        stopped = command._Done(first.driver, "local", 1, 2.0, is_stopped=True)
        assert stopped.exit_code == 130


async def test_wrong_names_are_said(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with mirroring() as world, importing(world) as first:
        state = first.coordinator.state
        with pytest.raises(BadSource, match="there is no link src, but: none"):
            command._link(state, "src")
        await world.link("other")
        await first.coordinator.catch_up()
        with pytest.raises(BadSource, match="mirrors no topic yet"):
            await command._topics(state, ImportOptions("src", (), None))
    async with mirroring() as world, importing(world) as first:
        await linked(world)
        await first.coordinator.catch_up()
        state = first.coordinator.state
        [topic] = await command._topics(state, ImportOptions("src", ("t",), None))
        assert topic.name == "t"
        with pytest.raises(BadSource, match="mirrors no topic u"):
            await command._topics(state, ImportOptions("src", ("t", "u"), None))
        link = command._link(state, "src")
        wrong = ImportOptions("src", (), None, logs=(tmp_path,))
        with pytest.raises(BadSource, match="no log folder of a Kafka broker"):
            async with opened_side(link, state, wrong):
                pass
        wrong = ImportOptions("src", (), tmp_path / "nothing")
        with pytest.raises(BadSource, match="nothing"):
            async with opened_side(link, state, wrong):
                pass
