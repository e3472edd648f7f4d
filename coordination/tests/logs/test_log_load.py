"""A URL opens a log, or raises an error that says what to write instead."""

from pathlib import Path

import pytest

from tidegate_coordination.log.load import known_schemes, open_log
from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.logs.sqlite.log import SqliteLog


async def test_memory() -> None:
    log = await open_log("memory:")
    assert isinstance(log, MemoryLog)
    await log.aclose()


async def test_sqlite(tmp_path: Path) -> None:
    log = await open_log(f"sqlite:{tmp_path / 'log.db'}")
    assert isinstance(log, SqliteLog)
    await log.aclose()


async def test_an_unknown_kind_names_the_known_ones_and_no_secret() -> None:
    with pytest.raises(LogMisconfigured, match=r"'etcd'; known: .*memory:, .*sqlite:") as refused:
        await open_log("etcd://user:secret@host/")
    assert "secret" not in str(refused.value)


async def test_the_error_of_a_bare_path_asks_for_its_scheme() -> None:
    with pytest.raises(LogMisconfigured, match="begins with its kind; known: "):
        await open_log("/var/lib/tidegate/log.db")


async def test_memory_takes_no_name() -> None:
    with pytest.raises(LogMisconfigured, match="`memory:` alone"):
        await open_log("memory:shared")


def test_known_schemes_are_sorted() -> None:
    assert {"memory", "sqlite"} <= set(known_schemes())
    assert known_schemes() == sorted(known_schemes())
