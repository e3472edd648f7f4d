"""A pooler before PostgreSQL: only one in session mode is fit for a metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds import postgres_world
from tests.worlds.pooler import running_pooler
from tests.worlds.postgres_world import fill, raw
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.logs.postgres import log as postgres_log

if TYPE_CHECKING:
    from tests.worlds.pg_server import PostgresServer

url = postgres_world.url


async def test_a_pooler_that_shares_sessions_is_refused_by_name(
    postgres_server: PostgresServer, url: str
) -> None:
    with running_pooler(url, keeps_sessions=False) as pooled:
        for _ in range(3):
            with pytest.raises(LogMisconfigured, match=r"not in session mode.*pool_mode=session"):
                await open_log(pooled)
    schemas = "SELECT to_regnamespace('tidegate') IS NULL, to_regclass('entry') IS NULL"
    assert raw(url, schemas) == [(True, True)]


async def test_a_pooler_in_session_mode_serves(postgres_server: PostgresServer, url: str) -> None:
    with running_pooler(url, keeps_sessions=True) as pooled:
        log = await open_log(pooled)
        await fill(log, 3)
        await log.aclose()
    assert raw(url, "SELECT count(*) FROM tidegate.entry") == [(3,)]


async def test_without_the_check_a_pooler_that_shares_sessions_passes(
    postgres_server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This proves that the test above fails if the check does nothing."""
    monkeypatch.setattr(postgres_log, "see_own_sessions", lambda *_: None)
    with running_pooler(url, keeps_sessions=False) as pooled:
        await (await open_log(pooled)).aclose()
