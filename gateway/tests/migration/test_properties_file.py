"""The files of client properties of links, which operators change while links run."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.client.errors import BrokerUnreachable
from tidegate_coordination.state.migration.links import Link
from tidegate_gateway.migration.properties_file import LOOK_SECONDS, PropertiesFile
from tidegate_gateway.work.blocking import Inline

LINK = Link("old", "cluster", "b1:9092", ("t",))
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def content(password: str) -> str:
    return (
        "bootstrap.servers=other:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={MODULE} required username=a password={password};\n"
    )


def put(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "link.properties"
    found.write_text(content("one"))
    return found


async def test_the_addresses_are_the_links(path: Path) -> None:
    for file in (path, None):
        found = await PropertiesFile(LINK, file, Inline()).read()
        assert [str(each) for each in found.bootstrap_servers] == ["b1:9092"]
        assert (found.sasl is None) == (file is None)


async def test_a_refused_link_starts_anew_once_its_file_has_changed(
    path: Path, autojump_clock: MockClock
) -> None:
    file = PropertiesFile(LINK, path, Inline())
    used, refused = await file.read(), False
    over = trio.Event()

    async def watch() -> None:
        with pytest.raises(BrokerUnreachable, match=r"link\.properties has changed"):
            await file.watch(used, lambda: refused)
        over.set()

    async def stays() -> bool:
        await trio.sleep(2 * LOOK_SECONDS)
        return not over.is_set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        put(path, content("two"))
        assert await stays()  # its connections work
        put(path, content("one"))
        refused = True
        assert await stays()
        put(path, content("two")[:-20])  # half written
        assert await stays()
        await trio.Path(path).unlink()
        assert await stays()
        put(path, content("two"))
        assert not await stays()


async def test_a_link_without_a_file_has_nothing_to_watch() -> None:
    file = PropertiesFile(LINK, None, Inline())
    await file.watch(await file.read(), lambda: True)
