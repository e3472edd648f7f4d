"""The commands of `tidegate topic` that change and show topics, against a gateway in memory."""

from __future__ import annotations

import json
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.kafka_world import kafka_world, lines
from tests.worlds.scripted_broker import PROPERTIES, ScriptedBroker
from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import BrokerUnreachable, ClassicError, Disconnected
from tidegate_coordination.client.failed import Failed
from tidegate_coordination.client.metadata import ClusterMetadata
from tidegate_gateway.cli.kafka.deleting import delete_each
from tidegate_gateway.cli.topic.admin import (
    AlterOptions,
    CreateOptions,
    alter,
    create,
    delete,
    describe,
    show_all,
)
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import metadata as me
from tidegate_runtime.settings_texts import BadSource


async def test_a_topic_is_made_shown_changed_and_deleted(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kafka_world() as world:
        cluster = world.cluster
        options = CreateOptions("orders", 3, configs=("retention.ms=60000",))
        assert await create(cluster, options, as_json=False) == 0
        assert capsys.readouterr().out == "topic orders is made, with 3 partitions\n"

        await world.write("orders", b"one\ntwo\n", partition=1)
        assert await describe(cluster, "orders", shows_defaults=False, as_json=False) == 0
        shown = list(lines(capsys.readouterr().out))
        assert ["configs", "retention.ms=60000"] in shown
        assert shown[-3:] == [
            ["0", "1", "1", "1", "0", "0"],
            ["1", "1", "1", "1", "0", "2"],
            ["2", "1", "1", "1", "0", "0"],
        ]

        change = AlterOptions("orders", 5, ("cleanup.policy=compact",), ("retention.ms",))
        assert await alter(cluster, change, as_json=True) == 0
        assert json.loads(capsys.readouterr().out) == {
            "name": "orders",
            "set": {"cleanup.policy": "compact"},
            "deleted": ["retention.ms"],
            "partitions": 5,
        }
        assert await describe(cluster, "orders", shows_defaults=False, as_json=True) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["configs"] == {"cleanup.policy": "compact"}
        assert [each["end"] for each in facts["partitions"]] == [0, 2, 0, 0, 0]
        assert len(facts["topic_id"]) == 22

        assert await delete(cluster, ["orders"], yes=True, as_json=False) == 0
        assert await show_all(cluster, shows_internal=False, as_json=False) == 0
        assert capsys.readouterr().out == "topic orders is deleted\nThere is no topic.\n"


async def test_a_topic_is_made_though_brokers_do_not_show_it_yet(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Kafka broker gets a new topic only after the controller has answered the client."""
    async with kafka_world() as world:

        async def old(topics: object = None) -> ClusterMetadata:
            await trio.lowlevel.checkpoint()
            return world.cluster.metadata

        monkeypatch.setattr(world.cluster, "refresh", old)
        assert await create(world.cluster, CreateOptions("orders", 3), as_json=False) == 0
        assert capsys.readouterr().out == "topic orders is made, with 3 partitions\n"


async def test_a_cluster_that_does_not_say_how_many_partitions_it_made(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka does not say it before 2.4, nor to a client that may not see configs."""
    async with trio.open_nursery() as nursery:
        broker = ScriptedBroker(nursery)
        broker.answers["Metadata"] = lambda asked: me.MetadataResponse(
            brokers=[me.MetadataResponseBroker(1, "broker-1", 9092)], controller_id=1
        )
        broker.answers["CreateTopics"] = lambda asked: ct.CreateTopicsResponse(
            topics=[ct.CreatableTopicResult("orders", num_partitions=-1, replication_factor=-1)]
        )
        cluster = ClassicCluster(nursery, broker.dial, PROPERTIES, rng=Random(1))
        await cluster.refresh([])
        for options in (CreateOptions("orders", 3), CreateOptions("orders")):
            assert await create(cluster, options, as_json=False) == 0
        assert await create(cluster, CreateOptions("orders"), as_json=True) == 0
        nursery.cancel_scope.cancel()
    assert capsys.readouterr().out.splitlines() == [
        "topic orders is made, with 3 partitions",
        "topic orders is made",
        '{"name": "orders", "partitions": null, "created": true}',
    ]


@pytest.mark.parametrize("as_json", [False, True])
async def test_configs_that_were_changed_before_partitions_are_refused_are_said(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("orders", 2)
        change = AlterOptions("orders", 1, ("retention.ms=60000",), ("cleanup.policy",))
        with pytest.raises(Failed, match=r"INVALID_PARTITIONS \(37\)"):
            await alter(world.cluster, change, as_json=as_json)
        told = capsys.readouterr().out
        if as_json:
            assert json.loads(told) == {
                "name": "orders",
                "set": {"retention.ms": "60000"},
                "deleted": ["cleanup.policy"],
                "partitions": None,
            }
        else:
            assert told == "retention.ms is 60000 now\ncleanup.policy has its default now\n"


async def test_all_topics_are_listed(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kafka_world() as world:
        await world.wire.create_topic("b", 2)
        await world.wire.create_topic("a", 1)
        assert await show_all(world.cluster, shows_internal=False, as_json=False) == 0
        assert list(lines(capsys.readouterr().out)) == [
            ["PARTITIONS", "REPLICAS", "TOPIC"],
            ["1", "1", "a"],
            ["2", "1", "b"],
        ]
        assert await show_all(world.cluster, shows_internal=True, as_json=True) == 0
        row = {"name": "a", "partitions": 1, "replicas": 1, "internal": False}
        assert row in json.loads(capsys.readouterr().out)


async def test_what_the_cluster_refuses_is_said(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kafka_world() as world:
        cluster = world.cluster
        await world.wire.create_topic("orders", 2)
        with pytest.raises(Failed, match=r"topic orders: TOPIC_ALREADY_EXISTS \(36\)"):
            await create(cluster, CreateOptions("orders", 1), as_json=False)
        there = CreateOptions("orders", 1, if_not_exists=True)
        assert await create(cluster, there, as_json=True) == 0
        said = json.loads(capsys.readouterr().out)
        assert said == {"name": "orders", "partitions": 2, "created": False}
        with pytest.raises(Failed, match=r"INVALID_CONFIG \(40\).*no.such"):
            await alter(cluster, AlterOptions("orders", configs=("no.such=1",)), as_json=False)
        with pytest.raises(Failed, match=r"INVALID_PARTITIONS \(37\)"):
            await alter(cluster, AlterOptions("orders", partitions=1), as_json=False)
        with pytest.raises(Failed, match="there is no topic missing"):
            await describe(cluster, "missing", shows_defaults=False, as_json=False)
        with pytest.raises(Failed, match="there is no topic missing"):
            await delete(cluster, ["orders", "missing"], yes=True, as_json=False)
        # Without an answer to its question the command deletes nothing.
        assert await delete(cluster, ["orders"], yes=False, as_json=False) == 1
        assert "orders" in (await cluster.refresh(None)).topics


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Disconnected("it closed."), "topic c may be deleted: it closed."),
        (BrokerUnreachable("it is away."), "topic c is not deleted: it is away."),
    ],
)
async def test_what_was_deleted_before_the_cluster_went_away_is_said(
    autojump_clock: MockClock,
    capsys: pytest.CaptureFixture[str],
    error: ClassicError,
    said: str,
) -> None:
    names = ["a", "b", "c", "d"]
    problems = {"b": "b is kept", "c": said, "d": "topic d was not tried"}

    async def delete_one(name: str) -> None:
        await trio.lowlevel.checkpoint()
        if name == "b":
            raise Failed("b is kept")
        if name != "a":
            raise error

    assert await delete_each("topic", names, delete_one, as_json=True) == 2
    told = capsys.readouterr()
    assert json.loads(told.out) == {"deleted": ["a"], "problems": problems}
    assert told.err == ""
    assert await delete_each("topic", names, delete_one, as_json=False) == 2
    told = capsys.readouterr()
    assert told.out == "topic a is deleted\n"
    assert told.err.splitlines() == [f"tidegate: {each}" for each in problems.values()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (AlterOptions("t"), "give --config, --delete-config or --partitions"),
        (AlterOptions("t", configs=("a",)), "--config a is not NAME=VALUE"),
        (AlterOptions("t", configs=("a=1", "a=2")), "--config names a twice"),
        (AlterOptions("t", configs=("a=1",), deleted=("a",)), "both name a"),
    ],
)
async def test_options_that_make_no_sense(
    options: AlterOptions, said: str, autojump_clock: MockClock
) -> None:
    async with kafka_world() as world:
        with pytest.raises(BadSource, match=said):
            await alter(world.cluster, options, as_json=False)


async def test_json_cannot_ask(autojump_clock: MockClock) -> None:
    async with kafka_world() as world:
        with pytest.raises(BadSource, match="give --yes, too"):
            await delete(world.cluster, ["a"], yes=False, as_json=True)
