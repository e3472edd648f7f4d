"""A proposal fails once ACLs changed since its client's rights were looked up."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.forwarding_world import World, forwarding_world
from tidegate_coordination.coordinator.coordinator import (
    MAX_RENEWALS,
    RENEWAL_SECONDS,
    Coordinator,
    CoordinatorUnavailable,
)
from tidegate_coordination.coordinator.permits import PERMIT
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.rules.security.acls import CreateAcls
from tidegate_coordination.security.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.state.cluster import ClusterState


@dataclass
class Rights:
    """A permit.

    answers: the results of renew(), in order; asked: the positions with which renew() was called.
    """

    as_of: int
    answers: list[bool] = field(default_factory=list[bool])
    asked: list[int] = field(default_factory=list[int])

    def renew(self, position: int) -> bool:
        """See Permit."""
        self.as_of = position
        self.asked.append(position)
        return self.answers.pop(0)


@contextmanager
def by(rights: Rights) -> Generator[Rights]:
    token = PERMIT.set(rights)
    yield rights
    PERMIT.reset(token)


def acl(name: str) -> Acl:
    return Acl(
        ResourceType.TOPIC,
        PatternType.LITERAL,
        name,
        "User:a",
        "*",
        Operation.READ,
        Permission.ALLOW,
    )


@pytest.mark.parametrize("is_author_of_log", [True, False])
async def test_rights_that_changed_are_looked_up_again(
    is_author_of_log: bool, autojump_clock: MockClock
) -> None:
    """The author or another gateway decides. The other gateway knows of the ACL change first."""
    async with forwarding_world(level=NEWEST) as world:
        decider, author = await two(world, is_author_of_log)
        seen = author.state.position
        assert await decider.propose(CreateAcls([acl("x")])) is None
        with by(Rights(seen, [True])) as rights:
            first = await author.propose(ReserveProducerIds(1))
        assert rights.asked == [decider.state.acls.changed_at]
        with by(Rights(author.state.position)) as rights:
            assert await author.propose(ReserveProducerIds(1)) == first + 1
        assert rights.asked == []


@pytest.mark.parametrize("is_author_of_log", [True, False])
async def test_a_right_that_is_gone_changes_nothing(
    is_author_of_log: bool, autojump_clock: MockClock
) -> None:
    async with forwarding_world(level=NEWEST) as world:
        decider, author = await two(world, is_author_of_log)
        seen, before = author.state.position, author.state.producer_ids.next_id
        assert await decider.propose(CreateAcls([acl("x")])) is None
        with by(Rights(seen, [False])), pytest.raises(CoordinatorUnavailable):
            await author.propose(ReserveProducerIds(1))
        assert author.state.producer_ids.next_id == before


async def two(world: World, is_author_of_log: bool) -> tuple[Coordinator, Coordinator]:
    """Return two gateways.

    The proposals of the second gateway are decided by itself or by the first.
    """
    decider = await world.start(1)
    author = await world.start(9, leads=is_author_of_log, reaches_log=is_author_of_log)
    await author.propose(Renew())
    return decider, author


async def test_acls_of_the_same_entry_count(autojump_clock: MockClock) -> None:
    """Both proposals wait; the one with rights is decided after the entry that has the ACLs."""
    async with forwarding_world(level=NEWEST) as world:
        gateway = await world.start(1)
        done = list[object]()
        gateway.submit(CreateAcls([acl("x")]), done.append, done.append)
        with by(Rights(gateway.state.position, [False])), pytest.raises(CoordinatorUnavailable):
            await gateway.propose(ReserveProducerIds(1))
        assert done == [None]


async def test_it_ends_where_acls_change_all_the_time(autojump_clock: MockClock) -> None:
    async with forwarding_world(level=NEWEST) as world:
        gateway = await world.start(1)

        class Busy(Rights):
            def renew(self, position: int) -> bool:
                self.asked.append(position)
                return True  # but as of a position that is outdated by now

        await gateway.propose(CreateAcls([acl("x")]))
        with by(Busy(1)) as rights, pytest.raises(CoordinatorUnavailable):
            await gateway.propose(ReserveProducerIds(1))
        assert len(rights.asked) == MAX_RENEWALS


async def test_a_client_that_may_have_given_up_is_not_proposed_for_again(
    autojump_clock: MockClock,
) -> None:
    """The client may have sent its request to another gateway since (decision 22)."""
    async with forwarding_world(level=NEWEST) as world:
        gateway = await world.start(1)
        seen = gateway.state.position
        await gateway.propose(CreateAcls([acl("x")]))
        catch_up = gateway.catch_up

        async def slow() -> None:
            await trio.sleep(RENEWAL_SECONDS + 0.1)
            await catch_up()

        gateway.catch_up = slow  # type: ignore[method-assign]
        with by(Rights(seen, [True])) as rights, pytest.raises(CoordinatorUnavailable):
            await gateway.propose(ReserveProducerIds(1))
        assert rights.asked == []


async def test_a_snapshot_counts_as_a_change(autojump_clock: MockClock) -> None:
    async with forwarding_world(level=NEWEST) as world:
        gateway = await world.start(1)
        await gateway.propose(Renew())
        state = gateway.state
        assert state.acls.changed_at == 0
        assert ClusterState.decode(state.encode()).acls.changed_at == state.position
