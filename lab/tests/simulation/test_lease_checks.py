"""The simulator's check that no gateway expires another too soon."""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import AnyEvent, encode_entry, encode_events
from tidegate_coordination.state.writers.gateways import DEFAULT_LEASE_MS
from tidegate_simulation.clients.workload import Workload
from tidegate_simulation.drawing import draw_run
from tidegate_simulation.plans.move_plan import FIRST_LOG
from tidegate_simulation.plans.strikes import Strikes
from tidegate_simulation.probers.auditor import Auditor
from tidegate_simulation.world.world import World

LEASE_SECONDS = DEFAULT_LEASE_MS / 1000
RENEWED = ev.GatewayRenewed()
MOMENT = 0.01


def registered(incarnation: int) -> ev.GatewayRegistered:
    return ev.GatewayRegistered(incarnation, incarnation, f"key-{incarnation}", "zone", (), "0", 0)


def forwarded(author: int, number: int = 1) -> ev.Proposed:
    return ev.Proposed(author, number, 0, 1000, 1, b"")


class Cluster:
    """The log of gateways 1 and 2, in a simulated world without gateways."""

    def __init__(self, nursery: trio.Nursery) -> None:
        settings, plan = draw_run(1, Random(1), 0)
        self.world = World(1, plan, settings, nursery, Strikes((), Random(1)))

    async def appends(self, writer: int, *events: AnyEvent) -> None:
        """Append an entry."""
        position = len(self.world.watch.payloads) + 1
        payload = encode_entry(b"n" * 12, writer, 1000, encode_events(events), 1)
        await self.world.log_at(FIRST_LOG).append(position, payload)

    @property
    def found(self) -> list[str]:
        """The kinds of violations so far."""
        return [each.kind for each in self.world.violations]


@pytest.fixture
async def cluster(nursery: trio.Nursery) -> Cluster:
    made = Cluster(nursery)
    await made.appends(0, ev.ClusterCreated("cluster", 1), registered(1))
    await made.appends(0, registered(2))
    return made


@pytest.mark.parametrize(
    ("writer", "event"),
    [
        (2, RENEWED),  # an entry of its own
        (1, forwarded(2)),  # a proposal in another gateway's entry
        (2, forwarded(1)),  # an entry for another
    ],
    ids=["own entry", "forwarded", "for another"],
)
@pytest.mark.parametrize(
    ("seconds", "found"),
    [(LEASE_SECONDS / 2 - MOMENT, ["expired too soon"]), (LEASE_SECONDS / 2 + MOMENT, [])],
    ids=["too soon", "late enough"],
)
async def test_a_gateway_is_expired_half_a_lease_after_its_last_sign_of_life(
    autojump_clock: MockClock,
    cluster: Cluster,
    writer: int,
    event: AnyEvent,
    seconds: float,
    found: list[str],
) -> None:
    await trio.sleep(LEASE_SECONDS)
    await cluster.appends(writer, event)
    await trio.sleep(seconds)
    await cluster.appends(1, ev.GatewayExpired(2))
    assert cluster.found == found


async def test_a_gateway_that_has_just_registered_is_not_expired(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    await trio.sleep(LEASE_SECONDS)
    await cluster.appends(1, registered(3))  # forwarded, so in the entry of another
    await cluster.appends(1, ev.GatewayExpired(3))
    assert cluster.found == ["expired too soon"]


async def test_a_proposal_does_not_expire_the_appender_of_its_entry(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    await trio.sleep(LEASE_SECONDS)
    await cluster.appends(1, forwarded(2), ev.GatewayExpired(1))
    assert cluster.found == ["expired too soon"]


@pytest.mark.parametrize("before", [(), (forwarded(2),)], ids=["own entry", "forwarded"])
async def test_a_gateway_may_leave_at_any_time(
    autojump_clock: MockClock, cluster: Cluster, before: tuple[AnyEvent, ...]
) -> None:
    await cluster.appends(1 if before else 2, *before, ev.GatewayExpired(2))
    assert cluster.found == []


async def test_an_expiry_is_judged_by_its_own_time_however_late_the_clients_begin(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    await cluster.appends(2, RENEWED)
    await trio.sleep(LEASE_SECONDS)
    await cluster.appends(1, ev.GatewayExpired(2))
    await trio.sleep(1)
    workload = Workload(cluster.world, operations_left=1)
    cluster.world.nursery.start_soon(Auditor(workload, "auditor").run)
    await trio.sleep(1)
    assert cluster.found == []
