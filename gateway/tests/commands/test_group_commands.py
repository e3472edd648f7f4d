"""`tidegate group`: topics, lags and offsets of groups."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from trio.testing import MockClock

from tests.worlds.kafka_world import KafkaWorld, kafka_world, lines
from tests.worlds.wire_client import NOW_MS
from tidegate_coordination.client.failed import Failed
from tidegate_coordination.client.groups.group_offsets import GroupOffset, commit, committed
from tidegate_coordination.client.groups.seeking import Target, read_target
from tidegate_gateway.cli.group.changes import SeekOptions, delete, seek
from tidegate_gateway.cli.group.looks import describe, lag, show_all
from tidegate_protocol.records import Record, build_batch
from tidegate_runtime.settings_texts import BadSource


async def with_offsets(world: KafkaWorld, *offsets: int) -> None:
    """Make a topic of ten records a partition, and commit these offsets for group g."""
    await world.wire.create_topic("orders", len(offsets))
    for index in range(len(offsets)):
        await world.write("orders", b"x\n" * 10, partition=index)
    rows = [GroupOffset("orders", i, offset, -1, "") for i, offset in enumerate(offsets)]
    await commit(world.cluster, "g", rows)


async def offsets_of(world: KafkaWorld, group: str = "g") -> dict[int, int]:
    return {each.partition: each.offset for each in await committed(world.cluster, group)}


async def test_lag_of_members_and_of_partitions_that_nobody_reads(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kafka_world() as world:
        await with_offsets(world, 4, 10)
        await world.wire.create_topic("new", 1)
        member_id = await world.join("g", "new", [0])
        assert await lag(world.cluster, "g", as_json=False) == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert list(lines(shown)) == [
            ["group", "g", "is", "Stable,", "with", "1", "member"],
            [],
            ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEYOND", "CLIENT"],
            ["new", "0", "-", "0", "-", "-", "reader\\x1b[2J", "/client"],
            ["orders", "0", "4", "10", "6", "0", "-"],
            ["orders", "1", "10", "10", "0", "0", "-"],
            [],
            ["total", "lag", "6"],
        ]
        assert await lag(world.cluster, "g", as_json=True) == 0
        facts = json.loads(capsys.readouterr().out)
        assert (facts["total"], facts["members"], facts["state"]) == (6, 1, "Stable")
        assert facts["partitions"][0]["member_id"] == member_id
        assert [each["lag"] for each in facts["partitions"]] == [None, 6, 0]

        assert await describe(world.cluster, "g", as_json=False) == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "  client reader\\x1b[2J at /client\n  reads new:0\n" in shown
        assert await describe(world.cluster, "g", as_json=True) == 0
        [member] = json.loads(capsys.readouterr().out)["members"]
        assert member["assigned"] == [{"topic": "new", "partitions": [0]}]


async def test_a_commit_beyond_the_end_hides_no_lag(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kafka_world() as world:
        await with_offsets(world, 4, 5_000)
        assert await lag(world.cluster, "g", as_json=False) == 0
        shown = list(lines(capsys.readouterr().out))
        assert ["orders", "1", "5000", "10", "0", "4990", "-"] in shown
        assert ["total", "lag", "6"] in shown
        assert shown[-1][:6] == ["4990", "offsets", "are", "committed", "beyond", "the"]
        assert await lag(world.cluster, "g", as_json=True) == 0
        facts = json.loads(capsys.readouterr().out)
        assert (facts["total"], facts["total_beyond_end"]) == (6, 4990)


async def test_groups_are_listed_and_deleted(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kafka_world() as world:
        assert await show_all(world.cluster, as_json=False) == 0
        assert capsys.readouterr().out == "There is no group.\n"
        await with_offsets(world, 1)
        await world.join("live", "orders", [0])
        assert await show_all(world.cluster, as_json=False) == 0
        assert list(lines(capsys.readouterr().out)) == [
            ["STATE", "TYPE", "GROUP"],
            ["Empty", "classic", "g"],
            ["Stable", "classic", "live"],
        ]
        assert await show_all(world.cluster, as_json=True) == 0
        names = [each["name"] for each in json.loads(capsys.readouterr().out)]
        assert names == ["g", "live"]

        code = await delete(world.cluster, ["g", "live", "none"], yes=True, as_json=False)
        told = capsys.readouterr()
        assert (code, told.out) == (1, "group g is deleted\n")
        assert told.err.splitlines() == [
            "tidegate: group live has members: stop them first",
            "tidegate: there is no group none; see `tidegate group list`",
        ]
        for command in (lag, describe):
            with pytest.raises(Failed, match="there is no group g"):
                await command(world.cluster, "g", as_json=False)


@pytest.mark.parametrize(
    ("to", "after"),
    [
        ("earliest", [0, 0]),
        ("latest", [10, 10]),
        ("7", [7, 7]),
        ("99", [10, 10]),
        ("+2", [6, 10]),
        ("-5", [0, 4]),
        (f"@{NOW_MS}", [0, 0]),
        (f"@{NOW_MS + 1}", [10, 10]),
    ],
)
async def test_seek(to: str, after: Sequence[int], autojump_clock: MockClock) -> None:
    async with kafka_world() as world:
        await with_offsets(world, 4, 9)
        for is_dry, expected in ((True, [4, 9]), (False, after)):
            options = SeekOptions("g", ("orders",), to, is_dry=is_dry, yes=not is_dry)
            assert await seek(world.cluster, options, as_json=False) == 0
            assert await offsets_of(world) == dict(enumerate(expected))


async def test_seek_shows_what_it_changes(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kafka_world() as world:
        await with_offsets(world, 4, 9)
        options = SeekOptions("g", ("orders:1", "orders:1"), "+5", yes=True)
        assert await seek(world.cluster, options, as_json=False) == 0
        assert list(lines(capsys.readouterr().out)) == [
            ["TOPIC", "PARTITION", "BEFORE", "AFTER"],
            ["orders", "1", "9", "10", "14", "is", "after", "the", "end"],
            ["1", "offset", "of", "group", "g", "set."],
        ]
        options = SeekOptions("new", ("orders:0",), "3", yes=True)
        assert await seek(world.cluster, options, as_json=True) == 0
        assert json.loads(capsys.readouterr().out) == {
            "name": "new",
            "changed": True,
            "offsets": [
                {"topic": "orders", "partition": 0, "before": None, "after": 3, "note": None}
            ],
        }
        assert await offsets_of(world, "new") == {0: 3}


async def test_seek_by_time_finds_the_first_record_of_it(autojump_clock: MockClock) -> None:
    async with kafka_world() as world:
        await with_offsets(world, 4)
        batch = build_batch([Record(0, NOW_MS + 5000, None, b"d", ())])
        await world.wire.connect().produce("orders", 0, batch)
        options = SeekOptions("g", ("orders",), "2023-11-14T22:13:21Z", yes=True)
        assert await seek(world.cluster, options, as_json=False) == 0
        assert await offsets_of(world) == {0: 10}


async def test_seek_refuses(autojump_clock: MockClock) -> None:
    async with kafka_world() as world:
        await with_offsets(world, 4)
        for target, to, said in (
            ("orders:1", "3", "orders has 1 partitions, from 0 on: there is no 1"),
            ("missing", "3", "there is no topic missing"),
        ):
            with pytest.raises(Failed, match=said):
                await seek(world.cluster, SeekOptions("g", (target,), to, yes=True), as_json=False)
        with pytest.raises(Failed, match="group new has no committed offset of orders:0"):
            await seek(
                world.cluster, SeekOptions("new", ("orders",), "+1", yes=True), as_json=False
            )
        # Without an answer to its question the command changes nothing.
        assert await seek(world.cluster, SeekOptions("g", ("orders",), "0"), as_json=False) == 1
        with pytest.raises(BadSource, match="give --yes, too"):
            await seek(world.cluster, SeekOptions("g", ("orders",), "0"), as_json=True)

        await world.join("g", "orders", [0])
        for is_dry in (True, False):
            options = SeekOptions("g", ("orders",), "0", is_dry=is_dry, yes=True)
            with pytest.raises(Failed, match=r"group g is Stable: .* Stop its consumers first"):
                await seek(world.cluster, options, as_json=False)
        assert await offsets_of(world) == {0: 4}


def test_targets() -> None:
    assert read_target("orders") == Target("orders", None)
    assert read_target("orders:12") == Target("orders", 12)
    for text in ("", ":1", "orders:", "orders:x", "orders:-1", "orders:²"):
        with pytest.raises(BadSource, match="is not TOPIC or TOPIC:PARTITION"):
            read_target(text)
