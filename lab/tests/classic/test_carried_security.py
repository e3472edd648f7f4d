"""ACLs, quotas and SCRAM users of a source: read there, and set here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import repeat

import pytest
from trio.testing import MockClock

from tidegate_coordination.client.login.sasl import conversation
from tidegate_coordination.client.properties.jaas import SaslCredentials
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.security import acls as acl_rules
from tidegate_coordination.rules.security import parts
from tidegate_coordination.rules.security.acls import CreateAcls
from tidegate_coordination.rules.security.quotas import AlterClientQuotas
from tidegate_coordination.rules.security.scram import AlterScramCredentials
from tidegate_coordination.security.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.security.quotas import QuotaChange, QuotaEntity, QuotaKey
from tidegate_coordination.state.security.scram import ScramMechanism
from tidegate_gateway.cli.link.acls import compared_now
from tidegate_gateway.cli.link.carrying import CarryOptions
from tidegate_gateway.migration.carry import scram_plan
from tidegate_gateway.migration.carry.acl_changes import Carried, carry_acls
from tidegate_gateway.migration.carry.acl_notes import OwnNames
from tidegate_gateway.migration.carry.acl_plan import AclPlan, acl_plan
from tidegate_gateway.migration.carry.acl_scope import Scope
from tidegate_gateway.migration.carry.authorizer_here import has_authorizer
from tidegate_gateway.migration.carry.quota_plan import carry_quotas, quota_plan
from tidegate_gateway.migration.carry.scram_plan import ScramUser, credentials, scram_users
from tidegate_gateway.migration.carry.source_security import (
    NotShown,
    SourceQuota,
    source_acls,
    source_quotas,
    source_users,
)
from tidegate_gateway.migration.mirror.source_topics import wanted
from tidegate_gateway.migration.survey.looking import candidates_of, findings
from tidegate_gateway.migration.survey.own_names import link_topics, own_names
from tidegate_gateway.security.sasl.mechanism import InvalidCredentials
from tidegate_gateway.security.sasl.scram import ScramConversation
from tidegate_protocol.apis import ApiKey
from tidegate_runtime.secret import Secret
from tidegate_simulation.classic import rights
from tidegate_simulation.classic.profiles import KAFKA_2_1, KAFKA_3_9, KAFKA_4_3, Profile
from tidegate_simulation.classic.rights import Denial

from .test_link_commands import LINK, client_of
from .test_mirrors import World, mirroring

TOPIC, LITERAL = ResourceType.TOPIC, PatternType.LITERAL
READ, ALLOW, DENY = Operation.READ, Permission.ALLOW, Permission.DENY
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
ALL = Scope(is_all=True)


def acl(name: str = "t", permission: int = ALLOW, principal: str = "User:bob") -> Acl:
    return Acl(TOPIC, LITERAL, name, principal, "*", READ, permission)


@asynccontextmanager
async def worlds(profile: Profile = KAFKA_4_3) -> AsyncIterator[tuple[World, Coordinator]]:
    async with mirroring(profile=profile) as world:
        yield world, world.gateways[0].gateway.coordinator


async def planned(world: World, coordinator: Coordinator, *, prunes: bool = False) -> AclPlan:
    async with client_of(world.servers) as source:
        theirs = await source_acls(source)
    assert theirs is not None
    return acl_plan(theirs, coordinator.state.acls, ALL, OwnNames(), prunes=prunes)


# -- ACLs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [KAFKA_4_3, KAFKA_3_9, KAFKA_2_1])
async def test_acls_become_those_of_the_source(profile: Profile, autojump_clock: MockClock) -> None:
    async with worlds(profile) as (world, coordinator):
        prefix = Acl(TOPIC, PatternType.PREFIXED, "o", "User:*", "h", Operation.ALL, DENY)
        theirs = {acl(), acl("t", DENY), acl("*", principal="Group:g"), prefix}
        world.source.security.acls = set(theirs)
        assert await coordinator.propose(CreateAcls((acl("here"), acl("here", DENY)))) is None
        plan = await planned(world, coordinator)
        assert await carry_acls(coordinator, plan) == Carried(4, 0)
        assert set(coordinator.state.acls) == theirs | {acl("here"), acl("here", DENY)}
        again = await planned(world, coordinator)
        assert again.is_done
        assert again.equal == 4
        pruned = await planned(world, coordinator, prunes=True)
        assert await carry_acls(coordinator, pruned) == Carried(0, 2)
        assert set(coordinator.state.acls) == theirs


async def test_many_acls_travel_in_several_entries(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MAX_PART_BYTES", 100)
    async with worlds() as (world, coordinator):
        rows = {acl("t", DENY, f"User:u{each}") for each in range(8)}
        rows |= {acl("t", ALLOW, f"User:u{each}") for each in range(8)}
        world.source.security.acls = set(rows)
        before = coordinator.state.position
        assert await carry_acls(coordinator, await planned(world, coordinator)) == Carried(16, 0)
        assert coordinator.state.position >= before + 4
        assert list(map(_permission, coordinator.state.acls)) == [DENY] * 8 + [ALLOW] * 8
        world.source.security.acls = set()
        pruned = await planned(world, coordinator, prunes=True)
        assert await carry_acls(coordinator, pruned) == Carried(0, 16)
        assert not list(coordinator.state.acls)


async def test_an_acl_is_removed_without_a_look_at_others_of_its_name(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acl_rules, "MAX_LOOKS", 40)
    async with worlds() as (world, coordinator):
        rows = tuple(acl("t", ALLOW, f"User:u{each}") for each in range(16))
        assert await coordinator.propose(CreateAcls(rows)) is None
        world.source.security.acls = set()
        pruned = await planned(world, coordinator, prunes=True)
        assert await carry_acls(coordinator, pruned) == Carried(0, 16)


async def test_own_topics_are_not_the_links_though_the_source_has_their_names(
    autojump_clock: MockClock,
) -> None:
    async with worlds() as (world, coordinator), client_of(world.servers) as source:
        world.source.create_topic("t.2", 1)
        world.source.create_topic("later", 1)
        await world.gateways[0].world.create_topic("t_2", 1)
        await world.gateways[0].world.create_topic("own", 1)
        world.source.create_topic("own", 1)
        state, link = coordinator.state, replace(LINK, topics=(".*",))
        there = wanted(link, await source.refresh())
        found = link_topics(state, link, there)
        assert found.names == {"t", "later"}
        assert found.taken == {
            "own": "the name is taken here: by topic own",
            "t.2": "the name is taken here: by topic t_2",
        }
        link = replace(link, groups=("g*",), transactional_ids=("x",))
        assert own_names(state, link, found.names) == OwnNames(
            ["own", "t_2"], [], [], ("g*",), ("x",)
        )


async def test_what_a_link_mirrors_or_has_switched_is_the_links(
    autojump_clock: MockClock,
) -> None:
    async with worlds() as (world, coordinator), client_of(world.servers) as source:
        await world.link()
        world.write()
        await world.copied()
        state, there = coordinator.state, wanted(LINK, await source.refresh())
        assert link_topics(state, LINK, there) == (frozenset({"t"}), {})
        assert link_topics(state, LINK, ()) == (frozenset({"t"}), {})
        state.topics.fold_unlinked(world.source.topics["t"].topic_id)
        assert link_topics(state, LINK, there) == (frozenset({"t"}), {})
        state.topics.fold_relinked(world.source.topics["t"].topic_id, "other")
        assert link_topics(state, LINK, there) == (frozenset(), {"t": "link other mirrors it"})


async def test_acls_of_a_topic_that_only_has_the_links_name_stay(
    autojump_clock: MockClock,
) -> None:
    async with worlds() as (world, coordinator), client_of(world.servers) as source:
        await world.gateways[0].world.create_topic("t", 1)
        await world.link()
        world.source.security.acls = {acl(principal="User:theirs")}
        assert await coordinator.propose(CreateAcls((acl(principal="User:ours"),))) is None
        options = CarryOptions(LINK.name, None, True, False, True)
        linked = await compared_now(coordinator, source, options, only_linked=True)
        assert linked is not None
        assert (linked.plan.added, linked.plan.removed) == ([], [])
        assert list(linked.taken) == ["t"]
        whole = await compared_now(coordinator, source, options, only_linked=False)
        assert whole is not None
        assert [each.why for each in whole.plan.notes] == [
            "it also opens topics that are not of this link: t"
        ]


def _permission(row: Acl) -> int:
    return row.permission


async def test_acls_wait_for_the_level_of_the_cluster(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with worlds() as (world, coordinator):
        world.source.security.acls = {acl()}
        plan = await planned(world, coordinator)
        monkeypatch.setattr(coordinator.state, "metadata_version", 6)
        done = await carry_acls(coordinator, plan)
        assert (done.added, done.removed) == (0, 0)
        assert "metadata.version is below 7" in done.problem


async def test_a_source_without_an_authorizer_has_no_acls(autojump_clock: MockClock) -> None:
    async with worlds() as (world, _), client_of(world.servers) as source:
        assert await source_acls(source) is None


async def test_what_the_source_does_not_show_is_a_sentence(autojump_clock: MockClock) -> None:
    async with worlds() as (world, _), client_of(world.servers) as source:
        world.source.rights.denied.add(Denial(rights.DESCRIBE, rights.CLUSTER))
        world.source.rights.denied.add(Denial(rights.DESCRIBE_CONFIGS, rights.CLUSTER))
        with pytest.raises(NotShown, match="its ACLs: give the link's principal DESCRIBE of the"):
            await source_acls(source)
        with pytest.raises(NotShown, match=r"client quotas: give .* DESCRIBE_CONFIGS of the"):
            await source_quotas(source)
        with pytest.raises(NotShown, match=r"SCRAM users: give .* DESCRIBE of the"):
            await source_users(source)
    without = KAFKA_4_3.without({ApiKey.DESCRIBE_ACLS})
    for profile, reads in ((KAFKA_2_1, source_quotas), (KAFKA_2_1, source_users)):
        async with worlds(profile) as (world, _), client_of(world.servers) as source:
            with pytest.raises(NotShown, match=r"that takes Kafka 2\.[67] or newer"):
                await reads(source)
    async with worlds(without) as (world, _), client_of(world.servers) as source:
        with pytest.raises(NotShown, match="does not show its ACLs"):
            await source_acls(source)


async def test_plan_and_check_tell_of_acls_that_are_not_here(autojump_clock: MockClock) -> None:
    async with worlds() as (world, coordinator), client_of(world.servers) as source:
        world.source.security.acls = {acl(), acl("*", DENY), acl("other")}
        state = coordinator.state
        [topic] = await candidates_of(source, LINK, state)
        assert topic.missing_acls == 2
        [warning] = [each for each in await findings(source, LINK, state) if each.warning]
        assert warning.what == "ACLs of the topics are here"
        assert "not all of t;" in warning.warning
        assert warning.problem == ""
        await carry_acls(coordinator, await planned(world, coordinator))
        [topic] = await candidates_of(source, LINK, state)
        assert topic.missing_acls == 0
        assert not any(each.warning for each in await findings(source, LINK, state))


async def test_plan_and_check_go_on_without_the_right_to_see_acls(
    autojump_clock: MockClock,
) -> None:
    async with worlds() as (world, coordinator), client_of(world.servers) as source:
        world.source.rights.denied.add(Denial(rights.DESCRIBE, rights.CLUSTER))
        [topic] = await candidates_of(source, LINK, coordinator.state)
        assert (topic.missing_acls, topic.obstacle) == (None, "")
        found = await findings(source, LINK, coordinator.state)
        assert not any(each.problem for each in found)
        [warning] = [each.warning for each in found if each.warning]
        assert "give the link's principal DESCRIBE of the cluster" in warning


async def test_whether_a_cluster_has_an_authorizer(autojump_clock: MockClock) -> None:
    async with worlds() as (world, _), client_of(world.servers) as either:
        assert await has_authorizer(either) is False
        world.source.security.acls = set()
        assert await has_authorizer(either) is True
        world.source.rights.denied.add(Denial(rights.DESCRIBE, rights.CLUSTER))
        assert await has_authorizer(either) is True
        for node_id in (1, 2):
            world.servers.stop_broker(node_id)
        assert await has_authorizer(either) is None


# -- quotas ----------------------------------------------------------------------------------------

BOTH = QuotaEntity("alice", "")
ADDRESS = QuotaEntity(ip="10.0.0.1")


async def test_quotas_become_those_of_the_source(autojump_clock: MockClock) -> None:
    async with worlds() as (world, coordinator), client_of(world.servers) as source:
        world.source.security.quotas = {
            BOTH: {QuotaKey.PRODUCE: 1024.0, QuotaKey.REQUEST: 12.5},
            QuotaEntity(""): {QuotaKey.FETCH: 10.0},
            QuotaEntity(client_id=""): {QuotaKey.MUTATION: 3.0},
            ADDRESS: {QuotaKey.CONNECTION: 5.0},
            QuotaEntity(ip=""): {QuotaKey.CONNECTION: 50.0},
        }
        ours = [
            QuotaChange(BOTH, QuotaKey.PRODUCE, 7.0),
            QuotaChange(ADDRESS, QuotaKey.CONNECTION, 5.0),
            QuotaChange(QuotaEntity("here"), QuotaKey.FETCH, 9.0),
        ]
        assert await coordinator.propose(AlterClientQuotas(ours)) is None
        table = coordinator.state.quotas
        plan = quota_plan(await source_quotas(source), table, prunes=False)
        assert plan.equal == 1
        assert {each.change.entity: each.before for each in plan.steps}[QuotaEntity("")] is None
        [different] = [each for each in plan.steps if each.before is not None]
        assert different == (QuotaChange(BOTH, QuotaKey.PRODUCE, 1024.0), 7.0)
        assert await carry_quotas(coordinator, plan) == (5, "")
        assert {**dict(table)} == world.source.security.quotas | {
            QuotaEntity("here"): {QuotaKey.FETCH: 9.0}
        }
        again = quota_plan(await source_quotas(source), table, prunes=True)
        assert (again.equal, again.steps, len(again.only_here)) == (6, [], 1)
        assert await carry_quotas(coordinator, again) == (1, "")
        assert {**dict(table)} == world.source.security.quotas


async def test_quotas_that_cannot_be_here_are_named(autojump_clock: MockClock) -> None:
    async with worlds() as (_, coordinator):
        theirs = [
            SourceQuota((("ip", "host.example"),), QuotaKey.CONNECTION, 5.0),
            SourceQuota((("planet", "mars"),), QuotaKey.FETCH, 5.0),
            SourceQuota((("user", "a"),), "of_the_future", 5.0),
            SourceQuota((("user", None),), QuotaKey.FETCH, 5.0),
        ]
        plan = quota_plan(theirs, coordinator.state.quotas, prunes=False)
        assert [each.change.entity for each in plan.steps] == [QuotaEntity("")]
        assert [each.quota for each in plan.not_carried] == theirs[:3]
        assert all(each.why for each in plan.not_carried)
        assert theirs[3].text == "user (default)"


async def test_a_quota_stays_if_the_source_has_one_that_cannot_be_here(
    autojump_clock: MockClock,
) -> None:
    async with worlds() as (_, coordinator):
        ours = [QuotaChange(QuotaEntity("a"), QuotaKey.FETCH, 9.0)]
        assert await coordinator.propose(AlterClientQuotas(ours)) is None
        theirs = [
            SourceQuota((("user", "a"),), QuotaKey.FETCH, -1.0),
            SourceQuota((("user", "b"),), QuotaKey.FETCH, 5.0),
        ]
        plan = quota_plan(theirs, coordinator.state.quotas, prunes=True)
        assert [each.change.entity.user for each in plan.changes] == ["b"]
        assert (plan.equal, len(plan.not_carried)) == (0, 1)


async def test_quotas_wait_for_the_level_of_the_cluster(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with worlds() as (_, coordinator):
        quota = SourceQuota((("user", None),), QuotaKey.FETCH, 5.0)
        plan = quota_plan([quota], coordinator.state.quotas, prunes=False)
        monkeypatch.setattr(coordinator.state, "metadata_version", 6)
        done, problem = await carry_quotas(coordinator, plan)
        assert done == 0
        assert "metadata.version is below 7" in problem


# -- SCRAM users -----------------------------------------------------------------------------------


async def test_users_get_credentials_for_the_mechanisms_that_they_have(
    autojump_clock: MockClock,
) -> None:
    async with worlds() as (world, coordinator), client_of(world.servers) as source:
        world.source.security.users = {
            "alice": {SHA_256: 4096, SHA_512: 20_000},
            "bob": {SHA_512: 8192},
            "*": {SHA_256: 4096},
            "zo\u00eb": {SHA_256: 4096},
        }
        table = coordinator.state.scram
        star, alice, bob, zoe = scram_users(await source_users(source), table)
        assert [each.is_here for each in (star, alice, bob)] == [False] * 3
        assert [bool(each.obstacle) for each in (star, alice, zoe)] == [True, False, True]
        made = credentials(alice, "secret", repeat(b"salt"))
        assert [(each.mechanism, each.iterations) for each in made] == [
            (SHA_256, 4096),
            (SHA_512, 16_384),
        ]
        assert await coordinator.propose(AlterScramCredentials(made[:1])) == [None]
        _, alice, bob, _ = scram_users(await source_users(source), table)
        assert (alice.is_here, list(alice.missing), bob.is_here) == (True, [SHA_512], False)


@pytest.mark.parametrize(("password", "is_right"), [("p w;=,1", True), ("other", False)])
def test_a_client_logs_in_with_its_new_password(password: str, is_right: bool) -> None:
    user = ScramUser("a,b", {SHA_512: 4096}, frozenset({SHA_512}))
    [made] = credentials(user, "p w;=,1", repeat(b"salt of twelve bytes"))
    server = ScramConversation("SCRAM-SHA-512", lambda *_: made, "nonce", b"")
    client = conversation(SaslCredentials("SCRAM-SHA-512", "a,b", Secret(password)))
    final = client.send(server.step(next(client)))
    if is_right:
        with suppress(StopIteration):
            client.send(server.step(final))
        assert server.user == "a,b"
    else:
        with pytest.raises(InvalidCredentials):
            server.step(final)


def test_passwords_that_clients_write_differently_are_refused() -> None:
    assert scram_plan.password_problem("aA1 ;,=") == ""
    for each in ("", "ä", "a\n"):
        assert scram_plan.password_problem(each)
