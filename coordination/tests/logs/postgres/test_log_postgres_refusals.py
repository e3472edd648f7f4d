"""Errors of `postgres:` if a log cannot be opened: clear refusals, and outages."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from tests.worlds import postgres_world
from tests.worlds.postgres_world import fill, opened_log, raw
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable
from tidegate_coordination.logs.postgres.log import PostgresLog

if TYPE_CHECKING:
    from tests.worlds.pg_server import PostgresServer


url, log = postgres_world.url, postgres_world.log


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("postgres-of-tests@", "wrong-secret@"), "check user and password"),
        (("postgres:postgres-of-tests@", "nobody:wrong-secret@"), "check user and password"),
        (("postgres:postgres-of-tests@", "nobody@"), "check user and password"),
        (("/d", "/none"), "create the database first"),
        (("postgres:postgres-of-tests@", "barred:postgres-of-tests@"), "create it, with LOGIN"),
        (("127.0.0.1", "127.0.0.1:1,127.0.0.1"), None),
    ],
)
async def test_errors_that_a_user_can_fix_are_one_sentence(
    postgres_server: PostgresServer,
    url: str,
    change: tuple[str, str],
    sentence: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    if "barred" in change[1]:
        postgres_server.sql("CREATE ROLE barred NOLOGIN PASSWORD 'postgres-of-tests'")
    wrong = url.replace(*change)
    assert wrong != url
    if sentence is None:
        await (await open_log(wrong)).aclose()
        return
    with pytest.raises(LogMisconfigured, match=sentence) as refused:
        await open_log(wrong)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_the_error_names_the_missing_rights_of_a_role(
    postgres_server: PostgresServer, url: str
) -> None:
    database = url.rpartition("/")[2]
    postgres_server.sql(f"CREATE ROLE {database} LOGIN PASSWORD 'postgres-of-tests'")
    theirs = postgres_server.url(database, user=database)
    with pytest.raises(LogMisconfigured, match="CREATE SCHEMA tidegate AUTHORIZATION"):
        await open_log(theirs)
    raw(url, f"CREATE SCHEMA tidegate AUTHORIZATION {database}")
    log = await opened_log(theirs)
    await fill(log, 1)
    await log.aclose()
    stranger = f"{database}_stranger"
    postgres_server.sql(f"CREATE ROLE {stranger} LOGIN PASSWORD 'postgres-of-tests'")
    with pytest.raises(LogMisconfigured, match="tidegate"):
        await open_log(postgres_server.url(database, user=stranger))


@pytest.mark.parametrize(
    ("state", "kind"),
    [("28P01", LogMisconfigured), ("3D000", LogMisconfigured), ("57P03", LogUnavailable)],
)
async def test_a_refusal_is_known_in_any_language(state: str, kind: type[Exception]) -> None:
    """A temporary refusal is an outage."""
    fields = ["SFATAL", "VFATAL", f"C{state}", "Mça ne va pas", ""]
    refusal = b"".join(each.encode() + b"\0" for each in fields)

    async def refuse(client: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            assert await client.receive_some(8)  # SSLRequest
            await client.send_all(b"N")
            assert await client.receive_some(1000)
            await client.send_all(b"E" + (len(refusal) + 4).to_bytes(4, "big") + refusal)
            await client.aclose()

    async with trio.open_nursery() as nursery:
        listen = partial(trio.serve_tcp, refuse, 0, host="127.0.0.1")
        (listener,) = await nursery.start(listen)
        port = listener.socket.getsockname()[1]
        with pytest.raises(kind, match="ça ne va pas"):
            await open_log(f"postgres://ann:secret@127.0.0.1:{port}/db")
        nursery.cancel_scope.cancel()


async def test_the_password_may_come_from_where_libpq_looks(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "postgres-of-tests")
    log = await open_log(url.replace(":postgres-of-tests", ""))
    await log.aclose()


async def test_a_newer_layout_is_refused(log: PostgresLog, url: str) -> None:
    raw(url, "UPDATE tidegate_layout SET version = 2")
    with pytest.raises(LogMisconfigured, match="layout 2; this release reads 1"):
        await open_log(url)


async def test_tables_of_other_programs_are_kept(url: str) -> None:
    raw(url, "CREATE TABLE public.entry (precious text)")
    with pytest.raises(LogMisconfigured, match="tables of other programs"):
        await open_log(f"{url}?schema=public")
    names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    assert raw(url, names) == [("entry",)]


async def test_an_unreachable_server_is_an_outage() -> None:
    with pytest.raises(LogUnavailable, match="refused"):
        await open_log("postgres://me:secret@127.0.0.1:1/db")


async def test_without_psycopg_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tidegate_coordination.logs.postgres.log", None)
    with pytest.raises(LogMisconfigured, match=r"python\S* -m pip install 'psycopg\[binary\]'"):
        await open_log("postgres://h/db")
