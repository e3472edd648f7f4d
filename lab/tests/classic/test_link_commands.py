"""`tidegate link check`, `plan`, `status` and `verify`: what they find, and what they print."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.app_world import pages_of
from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.opened_source import opened_source, properties_of, with_advice
from tidegate_coordination.client.properties.client import read_client_properties
from tidegate_coordination.client.retries import Backoff
from tidegate_coordination.rules.migration.mirrors import LinkRefusal
from tidegate_coordination.state.migration.links import Link
from tidegate_gateway.cli.link import text
from tidegate_gateway.cli.link.command import roll_back, switch_topics
from tidegate_gateway.cli.link.switch import _named
from tidegate_gateway.cli.link.verify import Verified, verified_json, verified_text
from tidegate_gateway.migration.fence_ages import TOPICS
from tidegate_gateway.migration.links import NO_FILE
from tidegate_gateway.migration.mirror.comparison import Comparison
from tidegate_gateway.migration.mirror.unmirrored import refused_topics
from tidegate_gateway.migration.mirror.verifying import Sides
from tidegate_gateway.migration.survey.looking import SWITCHABLE, candidates_of, findings
from tidegate_gateway.migration.survey.source_features import transaction_version
from tidegate_gateway.migration.switch.beyond import Beyond, beyond_switch
from tidegate_runtime.settings_texts import BadSource
from tidegate_simulation.classic import rights
from tidegate_simulation.classic.dial import ClassicServers
from tidegate_simulation.classic.profiles import (
    KAFKA_2_1,
    KAFKA_3_9,
    KAFKA_4_3,
    KAFKA_4_3_V1,
    Profile,
)
from tidegate_simulation.classic.rights import Denial

from .test_mirrors import World, becomes, mirroring
from .test_switches import limit, switched

SERVERS = "b1:9092,b2:9092"
LINK = Link("src", "classic-cluster", SERVERS, ("t",))


CLOSED = "b1:9092 closed the connection: check security.protocol"


@asynccontextmanager
async def client_of(servers: ClassicServers) -> AsyncIterator[ClassicCluster]:
    properties = read_client_properties(f"bootstrap.servers={SERVERS}", "test")
    async with trio.open_nursery() as nursery:
        backoff = Backoff(total_seconds=3)
        yield ClassicCluster(nursery, servers.dial, properties, rng=Random(1), backoff=backoff)
        nursery.cancel_scope.cancel()


async def problems(world: World, link: Link = LINK) -> dict[str, str]:
    state = world.gateways[0].gateway.coordinator.state
    async with client_of(world.servers) as source:
        found = await findings(source, link, state)
    return {each.what: each.problem for each in found if each.problem}


async def test_check_finds_nothing_where_all_is_well(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(3)
        assert await problems(world) == {}


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        (rights.READ, "records of the topics can be read"),
        (rights.DESCRIBE_CONFIGS, "configs of the topics can be read"),
    ],
)
async def test_check_names_the_rights_that_are_missing(
    autojump_clock: MockClock, operation: str, what: str
) -> None:
    async with mirroring() as world:
        world.source.rights.denied.add(Denial(operation, rights.TOPIC))
        found = await problems(world)
        assert list(found) == [what]
        assert "t" in found[what]


async def test_check_names_brokers_and_patterns_that_lead_nowhere(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        [(what, problem)] = (await problems(world, replace(LINK, topics=("nothing",)))).items()
        assert what == "0 topics match the patterns nothing"
        assert "no topic matches" in problem
        await world.gateways[0].world.create_topic("t", 1)
        assert (await problems(world))["topic t"] == "the name is taken here: by topic t"


async def test_plan_shows_sizes_and_obstacles(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(3)
        state = world.gateways[0].gateway.coordinator.state
        async with client_of(world.servers) as source:
            [new] = await candidates_of(source, LINK, state)
        assert (new.name, new.partitions, new.offsets, new.obstacle) == ("t", 2, 3, "")
        assert not new.is_mirrored
        await world.link()
        await world.copied()
        async with client_of(world.servers) as source:
            [known] = await candidates_of(source, LINK, state)
            assert known.is_mirrored
            [taken] = await candidates_of(source, replace(LINK, name="other"), state)
        assert taken.obstacle == "link src mirrors it"


async def test_verify_finds_what_was_changed_since_at_the_source(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        world.write(3)
        world.write(3)
        await world.link()
        await world.copied()
        log = world.log()
        seen: list[int] = []
        async with client_of(world.servers) as source:
            await source.refresh(["t"])
            sides = Sides(source, source, by_record=False, on_bytes=seen.append)
            same, empty = await sides.compared([("t", 0), ("t", 1)])
            assert (empty.difference, empty.items) == ("", 0)
            assert (same.difference, same.items) == ("", 2)
            assert sum(seen) == sum(len(each.raw) for each in log.batches)
            world.source.rights.denied.add(Denial(rights.READ, rights.TOPIC))
            [refused] = await sides.compared([("t", 0)])
            assert "TOPIC_AUTHORIZATION_FAILED" in refused.difference
            [unknown] = await sides.compared([("nothing", 0)])
            assert unknown.difference == "it has no leader"


async def test_the_page_of_links(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(3)
        await world.link()
        await world.copied()
        answer = await pages_of(world.gateways[0].gateway).answer("GET", "/v1/links")
        [link] = json.loads(answer.body)
        assert (link["name"], link["is_up"], link["partitions"], link["stuck"]) == (
            "src",
            True,
            2,
            0,
        )


async def test_errors_of_a_source_are_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadSource, match="cannot be reached"):
        async with opened_source("127.0.0.1:1", None):
            raise AssertionError
    assert "waiting for 127.0.0.1:1, for 15 s at most" in capsys.readouterr().err
    secret = tmp_path / "client.properties"
    secret.write_text("sasl.mechanism=GSSAPI\nsecurity.protocol=SASL_SSL\nssl.key.password=hush")
    with pytest.raises(BadSource) as caught:
        properties_of("h:1", secret)
    assert "hush" not in str(caught.value)
    with pytest.raises(BadSource, match="No such file"):
        properties_of("h:1", tmp_path / "none")


COPY = text.Copy("orders", 3, 5 << 20, 1200, 0, "")
NO_SWITCH = text.Switches([], [], [], False, [], {}, {})


def test_what_status_prints() -> None:
    assert "All copies are complete." in text.status_text(LINK, [COPY], NO_SWITCH, [], "")
    behind = text.status_text(LINK, [COPY._replace(behind=7)], NO_SWITCH, [], "")
    assert "complete" not in behind
    silent = text.status_text(
        LINK, [COPY._replace(behind=None)], NO_SWITCH, [], "b1 cannot be reached"
    )
    assert "PROBLEM: b1 cannot be reached" in silent
    told = json.loads(text.status_json(LINK, [COPY], NO_SWITCH, [], ""))
    assert told["copies"][0]["size_bytes"] == 5 << 20
    assert "no topic yet" in text.status_text(LINK, [], NO_SWITCH, [], "")


def test_status_tells_trouble_and_calls_no_copy_complete_then() -> None:
    beyond = {"orders": Beyond(21, is_sure=True), "bills": Beyond(1, is_sure=True)}
    cases = [
        (text.Noticed({"a_b": "the name is taken here"}), "not mirrored: a_b: the name is taken"),
        (text.Noticed({}, beyond), "orders: 21 records of its source are from after the switch"),
        (text.Noticed({}, beyond), "bills: 1 record of its source is from after the switch"),
    ]
    for noticed, line in cases:
        shown = text.status_text(LINK, [COPY], NO_SWITCH, [], "", noticed)
        assert line in shown
        assert noticed.is_trouble
        assert "complete" not in shown
    maybe = text.Noticed({}, {"orders": Beyond(3, is_sure=False)})
    shown = text.status_text(LINK, [COPY], NO_SWITCH, [], "", maybe)
    assert "3 offsets more than the log knows of" in shown
    assert not maybe.is_trouble
    told = json.loads(text.status_json(LINK, [COPY], NO_SWITCH, [], "", cases[0][0]))
    assert told["refused_topics"] == {"a_b": "the name is taken here"}


def test_what_verify_prints_of_topics_that_are_not_here() -> None:
    shown = verified_text([], {"t": "the name is taken here: by topic t"}, by_record=False)
    assert "the link mirrors no topic now" in shown
    assert "PROBLEM: not mirrored: t: the name is taken here: by topic t" in shown
    [absent] = json.loads(verified_json([], {"t": "the name is taken"}))
    assert absent["difference"] == "not mirrored: the name is taken"


def test_what_verify_prints_of_topics_that_the_source_compacts() -> None:
    differs = Comparison(0, 9, difference="offset 3: the source has no batch there")
    seen = [Verified("users", 0, differs), Verified("orders", 0, Comparison(0, 9))]
    shown = verified_text(seen, {}, {"users", "orders"}, by_record=False)
    assert "The source compacts users: records that it has removed since" in shown
    assert "compacts" not in verified_text(seen, {}, {"orders"}, by_record=False)


@pytest.mark.parametrize("command", [switch_topics, roll_back])
def test_commands_say_the_time_after_which_gateways_give_up(command: Callable[..., None]) -> None:
    text = " ".join(str(command.__doc__).split())
    assert f"takes longer than {TOPICS.own:.0f} seconds" in text


@pytest.mark.parametrize(
    ("problem", "advice", "said"),
    [
        (CLOSED, NO_FILE, f"{CLOSED}; {NO_FILE}."),
        (CLOSED, "", CLOSED),
        ("b1 cannot be reached.", NO_FILE, "b1 cannot be reached."),
    ],
)
def test_a_link_without_a_file_is_told_where_its_properties_go(
    problem: str, advice: str, said: str
) -> None:
    assert with_advice(problem, advice) == said


async def test_check_warns_before_a_switch_that_a_right_is_missing(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        world.source.rights.denied.add(Denial(rights.ALTER_CONFIGS, rights.TOPIC))
        state = world.gateways[0].gateway.coordinator.state
        async with client_of(world.servers) as source:
            found = {each.what: each for each in await findings(source, LINK, state)}
        assert "switches need ALTER_CONFIGS" in found[SWITCHABLE].warning
        assert not found[SWITCHABLE].problem
        assert limit(world) is None


async def test_a_switch_of_a_switched_topic_says_so(autojump_clock: MockClock) -> None:
    """The topic was switched by a command that was killed while it waited."""
    async with mirroring() as world:
        world.write(1)
        await world.link()
        await world.copied()
        await switched(world)
        coordinator = world.gateways[0].gateway.coordinator
        for name, text in (("t", "t was switched: it is this cluster's"), ("u", "not mirrored")):
            with pytest.raises(BadSource, match=text):
                _named(coordinator, "src", (name,))


async def test_topics_that_gateways_refuse_are_known_with_their_reasons(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        for name in ("a.b", "a_b", "free"):
            world.source.create_topic(name, 1, replication_factor=2)
        await world.gateways[0].world.create_topic("t", 1)
        link = replace(LINK, cluster_id=world.source.cluster_id, topics=("t", "a.*", "free"))
        await world.link(*link.topics)
        state = world.gateways[0].gateway.coordinator.state
        async with client_of(world.servers) as source:
            found = await refused_topics(source, link, state)
            running = world.gateways[0].gateway.links.running["src"]
            await becomes(lambda: running.sync is not None and running.sync.refused)
            assert running.sync is not None
            assert found == running.sync.refused
            assert set(found) == {"t", "a_b"}
            assert await refused_topics(source, link, state, ["free"]) == {}
            world.source.rights.denied.add(Denial(rights.DESCRIBE_CONFIGS, rights.TOPIC))
            blind = await refused_topics(source, replace(link, name="other"), state)
            assert "DESCRIBE_CONFIGS" in blind["t"]


async def test_a_source_that_has_more_than_the_log_knows_of_is_named(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        world.write(3)
        await world.link()
        await world.copied()
        await switched(world)
        state = world.gateways[0].gateway.coordinator.state
        async with client_of(world.servers) as source:
            await source.refresh()
            assert await beyond_switch(source, state, "src") == {}
            world.write(2)
            assert await beyond_switch(source, state, "src") == {"t": Beyond(2, is_sure=True)}
            assert await beyond_switch(source, state, "src", ["other"]) == {}


def test_what_status_prints_of_switches() -> None:
    back = (["e"], {"b": 7}, {"c": "it took too long"})
    switches = text.Switches(["a"], ["b", "c"], ["d"], True, *back)
    shown = text.status_text(LINK, [], switches, [], "")
    lines = (
        "being switched: a",
        "switched to this cluster: b, c",
        "finished: d",
        "ON HOLD",
        "back: e",
    )
    more = ("to the source: b, 7 offsets behind", "not returned: c: it took too long")
    for line in (*lines, *more):
        assert line in shown
    assert "no topic any more" in shown


def test_what_status_prints_of_transactional_ids() -> None:
    link = replace(LINK, transactional_ids=("a-*", "b"))
    shown = text.status_text(link, [], NO_SWITCH, [], "")
    assert "transactional ids that gateways forward: a-*, b" in shown
    assert "have moved here" not in shown
    half = NO_SWITCH._replace(moved_transactional_ids=["b"])
    shown = text.status_text(link, [], half, [], "")
    assert "transactional ids that gateways forward: a-*\n" in shown
    assert "transactional ids that have moved here: b" in shown
    told = json.loads(text.status_json(link, [], half, [], ""))
    assert told["forwarded_transactional_ids"] == ["a-*", "b"]
    assert told["moved_transactional_ids"] == ["b"]


@pytest.mark.parametrize(
    ("profile", "version"),
    [(KAFKA_4_3, 2), (KAFKA_4_3_V1, 1), (KAFKA_3_9, 0), (KAFKA_2_1, None)],
)
async def test_what_a_source_can_do_with_transactions(
    profile: Profile, version: int | None, autojump_clock: MockClock
) -> None:
    async with mirroring(profile=profile) as world, client_of(world.servers) as source:
        assert await transaction_version(source) == version


def test_what_add_prints() -> None:
    added = text.Added(LINK, [f"t{number}" for number in range(23)], None)
    shown = text.added_text(added, Path("/etc/c.properties"))
    some = text.added_text(added._replace(refused_topics={"t0": "taken", "t1": "taken"}), None)
    assert "It mirrors 21 topics: t2, t3" in some
    assert "PROBLEM: not mirrored: t1: taken" in some
    none = text.Added(LINK, ["t0"], None, {"t0": "taken"})
    assert "It mirrors no topic." in text.added_text(none, None)
    assert json.loads(text.added_json(none))["refused_topics"] == {"t0": "taken"}
    assert "It mirrors 23 topics: t0, t1" in shown
    assert "and 3 more" in shown
    assert "link.client.properties=src=/etc/c.properties" in shown
    with_ids = added._replace(link=replace(LINK, transactional_ids=("a-*",)))
    assert "forward transactional ids to the source: a-*" in text.added_text(with_ids, None)
    refused = added._replace(refusal=LinkRefusal.EXISTS)
    assert "--replace" in json.loads(text.added_json(refused))["refusal"]
