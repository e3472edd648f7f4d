"""Stores and logs of clouds on emulators: the contracts, races of processes, and a gateway."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
import trio
from clouds import servers
from clouds.racing import race
from clouds.servers import Place
from harness.broker import running
from harness.install import MissingTool

from tests.worlds.app_world import tidegate
from tests.worlds.greetings import consume, produce
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogMisconfigured,
    MetadataLog,
    Trimmed,
)
from tidegate_storage.stores.contract import CONTRACT
from tidegate_storage.stores.load import open_store

COUNT: Final = 100
RACERS: Final = ("one", "two")
PROMISES: Final = 20
STORES: Final = {"azurite": servers.azurite, "fake-gcs": servers.fake_gcs}
DYNAMODBS: Final = {
    "dynamodb-local": servers.dynamodb_local,
    "ministack": servers.ministack,
}


@pytest.fixture(scope="module")
def started() -> Iterator[Callable[[str], Place]]:
    """Start a server when the first test asks for it."""
    places: dict[str, Place] = {}
    with ExitStack() as stack:

        def start(name: str) -> Place:
            if name not in places:
                try:
                    places[name] = stack.enter_context((STORES | DYNAMODBS)[name]())
                except MissingTool as error:
                    pytest.skip(f"needs an emulator: {error}")
            return places[name]

        yield start


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, started: Callable[[str], Place]) -> Place:
    return started(request.param)


@pytest.fixture(params=DYNAMODBS)
def dynamodb(request: pytest.FixtureRequest, started: Callable[[str], Place]) -> Place:
    return started(request.param)


@pytest.fixture(params=DYNAMODBS | STORES)
def log(request: pytest.FixtureRequest, started: Callable[[str], Place]) -> Place:
    return started(request.param)


def _name() -> str:
    return secrets.token_hex(4)


# -- contracts ------------------------------------------------------------------------------------


def test_a_log_keeps_all_promises(log: Place, tmp_path: Path) -> None:
    done = tidegate("log", "verify", log(_name()), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith(f"{PROMISES} of {PROMISES} promises kept.\n")


async def test_a_store_keeps_the_contract(store: Place) -> None:
    opened = open_store(store(_name()))
    for check in CONTRACT:
        await check(opened, f"{check.__name__}/")
    await opened.aclose()


# -- races ----------------------------------------------------------------------------------------


async def test_of_two_processes_one_wins_each_position(log: Place) -> None:
    url = log(_name())
    first = await open_log(url)  # so that no racer creates it
    one, two = await trio.to_thread.run_sync(lambda: race("log", url, count=COUNT, names=RACERS))
    assert one & two == set()
    assert one | two == set(range(1, COUNT + 1))
    won = {number: b"one" for number in one} | {number: b"two" for number in two}
    assert await _entries(first) == won
    await first.aclose()


async def _entries(log: MetadataLog) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while page := await log.read(len(found) + 1, 1 << 20):
        assert not isinstance(page, Trimmed)
        found |= dict(page)
    return found


async def test_of_two_processes_one_creates_each_object(store: Place) -> None:
    url = store(_name())
    one, two = await trio.to_thread.run_sync(lambda: race("store", url, count=COUNT, names=RACERS))
    assert one & two == set()
    opened = open_store(url)
    bodies = {number: await opened.get(f"race/{number}") for number in range(1, COUNT + 1)}
    assert {number for number, body in bodies.items() if body == b"one"} >= one
    assert {number for number, body in bodies.items() if body == b"two"} >= two
    await opened.aclose()


# -- gateways -------------------------------------------------------------------------------------


def test_a_gateway_keeps_records_and_log_in_a_store(store: Place) -> None:
    url = store(_name())
    with running("tidegate", {"object.store": url}, log_url=url) as broker:
        produce(broker.bootstrap, "a", "b")
        assert consume(broker.bootstrap, 2) == ["a", "b"]


def test_two_gateways_share_a_log_in_dynamodb(dynamodb: Place, tmp_path: Path) -> None:
    url = dynamodb(_name())
    shared = {"object.store": f"file:{tmp_path}/objects", "peer.listener": "127.0.0.1:0"}
    with (
        running("tidegate", {**shared, "node.id": "1"}, log_url=url) as one,
        running("tidegate", {**shared, "node.id": "2"}, log_url=url) as two,
    ):
        produce(one.bootstrap, "a")
        produce(two.bootstrap, "b")
        assert sorted(consume(one.bootstrap, 2)) == ["a", "b"]
    done = tidegate("doctor", "--log", url, "--json", cwd=tmp_path)
    told = [each for each in json.loads(done.stdout)["checks"] if each["area"] == "metadata log"]
    assert told
    assert all(each["ok"] for each in told), told


# -- the table of DynamoDB ------------------------------------------------------------------------


async def test_many_may_be_the_first_in_a_table(dynamodb: Place) -> None:
    url = dynamodb("tidegate").replace("tidegate-tests", f"t-{_name()}")
    logs: list[MetadataLog] = []

    async def open_one() -> None:
        logs.append(await open_log(url))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(open_one)
    results = [await log.append(1, b"first") for log in logs]
    assert sorted(each.value for each in results) == ["appended"] + ["conflict"] * 3
    for log in logs:
        await log.aclose()


async def test_logs_of_one_table_do_not_see_each_other(dynamodb: Place) -> None:
    one, two = await open_log(dynamodb(_name())), await open_log(dynamodb(_name()))
    for position in range(1, 4):
        assert await one.append(position, b"x" * 100_000) is AppendResult.APPENDED
    await one.save_snapshot(3, [b"of one"])
    await one.trim(3)
    assert await two.read(1, 100) == []
    assert await two.load_snapshot() is None
    assert await two.append(1, b"its own") is AppendResult.APPENDED
    await one.aclose()
    await two.aclose()


async def test_a_table_of_another_program_is_refused(dynamodb: Place) -> None:
    table = f"t-{_name()}"
    url = dynamodb("tidegate").replace("tidegate-tests", table)
    await trio.to_thread.run_sync(_make_foreign_table, url.partition("endpoint=")[2], table)
    with pytest.raises(LogMisconfigured, match="name another table"):
        await open_log(url)


def _make_foreign_table(endpoint: str, table: str) -> None:
    import boto3

    client = boto3.client("dynamodb", endpoint_url=endpoint, region_name="us-east-1")
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    client.close()
