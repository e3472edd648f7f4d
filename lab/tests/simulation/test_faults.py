"""The faults: each has the effect of its name, and no other."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from tidegate_coordination.log.metadata_log import LogUnavailable
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.network.transport import TransportBroken
from tidegate_simulation.plans.faults import KINDS, draw_plan, draw_settings
from tidegate_simulation.plans.store_faults import StoreFaults
from tidegate_simulation.plans.strikes import Strikes
from tidegate_simulation.probers.neighbourhood import wrongly_absent
from tidegate_simulation.world.faulty.store import FaultyStore
from tidegate_simulation.world.network import Link
from tidegate_simulation.world.tasks.stalls import Stalls
from tidegate_storage.objects.ownership import claim_prefix
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import NoSuchObject, StoreUnavailable, put_idempotent

BODY = bytes(range(100))


def make(
    nursery: trio.Nursery, faults: StoreFaults, *promised: str
) -> tuple[FaultyStore, MemoryObjectStore, Strikes]:
    beneath = MemoryObjectStore(lambda: 0.0)
    strikes = Strikes(promised, Random(1))
    return FaultyStore(beneath, faults, Random(1), nursery, strikes), beneath, strikes


async def test_damage_strikes_an_object_once_and_leaves_it_whole(nursery: trio.Nursery) -> None:
    for faults in (StoreFaults(flipped_bit=1.0), StoreFaults(truncated_get=1.0)):
        store, beneath, strikes = make(nursery, faults)
        await store.put("a", BODY)
        await store.put("b", BODY)
        assert await store.get("a") != BODY
        assert await store.get("a") == BODY
        assert await store.get_range("b", 10, 20) != BODY[10:30]
        assert await store.get_range("b", 10, 20) == BODY[10:30]
        assert await beneath.get("a") == BODY
        assert strikes.landed.total() == 2


async def test_a_flipped_bit_is_one_bit(nursery: trio.Nursery) -> None:
    store, _, _ = make(nursery, StoreFaults(flipped_bit=1.0))
    await store.put("a", BODY)
    damaged = await store.get("a")
    assert len(damaged) == len(BODY)
    wrong = int.from_bytes(damaged, "big") ^ int.from_bytes(BODY, "big")
    assert wrong.bit_count() == 1


async def test_an_object_can_seem_to_be_missing(nursery: trio.Nursery) -> None:
    store, _, strikes = make(nursery, StoreFaults(missing_object=1.0))
    await store.put("a", BODY)
    with pytest.raises(NoSuchObject):
        await store.get("a")
    assert await store.get("a") == BODY
    assert strikes.landed == {"store.missing_object": 1}


async def test_a_throttled_store_refuses_for_a_while(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    store, _, strikes = make(nursery, StoreFaults(throttled=1e-12), "store.throttled")
    strikes.turn_on()
    await store.put("a", BODY)
    while not strikes.landed:
        with suppress(StoreUnavailable):
            await store.get("a")
    with pytest.raises(StoreUnavailable):
        await store.get("a")
    await trio.sleep(StoreFaults().slow_seconds)
    assert await store.get("a") == BODY


async def test_a_late_put_takes_effect_after_its_error(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    store, beneath, strikes = make(nursery, StoreFaults(late_put=1.0))
    with pytest.raises(StoreUnavailable):
        await store.put("a", BODY)
    with pytest.raises(NoSuchObject):
        await beneath.get("a")
    assert not strikes.landed
    await trio.sleep(StoreFaults().late_seconds)
    assert await beneath.get("a") == BODY
    assert strikes.landed == {"store.late_put": 1}


async def test_a_hung_call_takes_half_a_minute(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    store, beneath, _ = make(nursery, StoreFaults(hung=1.0))
    with pytest.raises(StoreUnavailable):
        await store.put("a", BODY)
    assert trio.current_time() == 30.0
    with pytest.raises(NoSuchObject):
        await beneath.get("a")


async def test_the_log_tells_how_many_calls_hang(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    log = FaultyLog(MemoryLog(), LogFaults(hung=1.0), Random(0))
    nursery.start_soon(_append, log)
    await trio.sleep(29.0)
    log.faults = LogFaults()
    assert log.hanging == 1
    await trio.sleep(2.0)
    assert not log.hanging


async def _append(log: FaultyLog) -> None:
    with suppress(LogUnavailable):
        await log.append(1, b"entry")


class _CutOff:
    """A node whose gateway is cut off until some time, because its call to the log hangs."""

    name = "node 1"

    def __init__(self, hangs_until: float, absent_until: float) -> None:
        self._hangs_until = hangs_until
        self._absent_until = absent_until
        self.gateway: Any = self
        self.coordinator: Any = self
        self.incarnation = 7

    @property
    def is_log_hung(self) -> bool:
        return trio.current_time() < self._hangs_until

    @property
    def absent(self) -> frozenset[int]:
        return frozenset({7} if trio.current_time() < self._absent_until else ())


@pytest.mark.parametrize(("hangs_until", "is_wrong"), [(25.0, False), (0.0, True)])
async def test_a_gateway_is_not_wrongly_absent_while_its_log_hangs(
    autojump_clock: trio.testing.MockClock, hangs_until: float, *, is_wrong: bool
) -> None:
    node: Any = _CutOff(hangs_until, 26.0)
    assert bool(await wrongly_absent([node])) is is_wrong


def test_a_promised_fault_strikes_once_after_a_few_calls() -> None:
    strikes = Strikes(("a",), Random(1))
    assert not any(strikes.is_due("a") for _ in range(100))
    strikes.turn_on()
    calls = [strikes.is_due("a") for _ in range(20)]
    assert not calls[0]
    assert calls[-1]
    assert not any(strikes.is_due("b") for _ in range(100))
    assert strikes.missing() == ("a",)
    strikes.count("a")
    assert not strikes.is_due("a")
    assert not strikes.missing()


def test_every_kind_is_drawn_and_some_runs_are_calm() -> None:
    plans = []
    for seed in range(300):
        rng = Random(seed)
        plans.append(draw_plan(rng, draw_settings(rng)))
    assert {kind for plan in plans for kind in plan.kinds} == set(KINDS)
    assert sum(not plan.kinds for plan in plans) > 20


async def test_a_damaged_read_back_does_not_count_as_another_object(nursery: trio.Nursery) -> None:
    for faults in (StoreFaults(flipped_bit=1.0), StoreFaults(truncated_get=1.0)):
        store, _, _ = make(nursery, faults)
        await store.put("a", BODY)
        await put_idempotent(store, "a", BODY)
    store, _, _ = make(nursery, StoreFaults(missing_object=1.0))
    await store.put("a", BODY)
    with pytest.raises(StoreUnavailable):
        await put_idempotent(store, "a", BODY)


async def test_a_damaged_owner_marker_is_read_again(nursery: trio.Nursery) -> None:
    beneath = MemoryObjectStore(lambda: 0.0)
    owner = await claim_prefix(beneath, "mine", timeline=1, created_by="1")
    for seed in range(200):
        faults = StoreFaults(flipped_bit=0.5, truncated_get=0.5)
        strikes = Strikes((), Random(seed))
        store = FaultyStore(beneath, faults, Random(seed), nursery, strikes)
        found = await claim_prefix(store, "mine", timeline=1, created_by="1")
        assert found.cluster_id == owner.cluster_id


# -- links ----------------------------------------------------------------------------------------


async def test_a_hung_link_does_not_pass_on_the_close_of_an_end(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    link = Link(("a", 1), Random(1), 0.0)
    nursery.start_soon(link.run)
    link.hang()
    link.client.send_nowait([b"x"])
    link.client.close()
    with trio.move_on_after(1000) as waited:
        await link.server.wait_receivable()
    assert waited.cancelled_caught
    link.flow()
    await link.server.wait_receivable()
    assert link.server.receive_nowait(memoryview(bytearray(10))) == 1


async def test_a_link_can_hang_in_one_direction(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    link = Link(("a", 1), Random(1), 0.0)
    nursery.start_soon(link.run)
    link.wires[1].hang()
    link.client.send_nowait([b"x"])
    link.server.send_nowait([b"y"])
    await link.server.wait_receivable()
    with trio.move_on_after(1000) as waited:
        await link.client.wait_receivable()
    assert waited.cancelled_caught
    link.reset()
    with pytest.raises(TransportBroken):
        link.client.receive_nowait(memoryview(bytearray(10)))


async def test_a_trickling_link_carries_a_few_bytes_a_second(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    link = Link(("a", 1), Random(1), 0.0)
    nursery.start_soon(link.run)
    link.trickle()
    link.client.send_nowait([bytes(1000)])
    buffer = memoryview(bytearray(10_000))
    with trio.move_on_after(10.0):
        await trio.sleep_forever()
    received = link.server.receive_nowait(buffer)
    assert received is not None
    assert 20 <= received <= 160
    nursery.cancel_scope.cancel()


# -- stalls ---------------------------------------------------------------------------------------


async def test_a_stalled_task_and_its_children_make_no_step_while_time_runs(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    steps: list[float] = []
    stalls, roots = Stalls(), list[trio.lowlevel.Task]()

    async def tick() -> None:
        while True:
            steps.append(trio.current_time())
            await trio.sleep(1.0)

    async def gateway() -> None:
        roots.append(trio.lowlevel.current_task())
        async with trio.open_nursery() as inner:
            inner.start_soon(tick)

    nursery.start_soon(gateway)
    await trio.sleep(2.5)
    stalls.stop(roots[0])
    await trio.sleep(10.0)
    assert steps == [0.0, 1.0, 2.0]
    stalls.go_on(roots[0])
    await trio.sleep(1.2)
    assert steps == [0.0, 1.0, 2.0, 12.5, 13.5]
    stalls.go_on(roots[0])
    nursery.cancel_scope.cancel()


async def test_a_stalled_task_is_cancelled_when_it_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stalls, ended = Stalls(), list[float]()

    async def gateway(scope: trio.CancelScope) -> None:
        with scope:
            stalls.stop(trio.lowlevel.current_task())
            await trio.sleep(5.0)
        ended.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        nursery.start_soon(gateway, scope)
        await trio.sleep(1.0)
        root = next(iter(nursery.child_tasks))
        scope.cancel()
        await trio.sleep(1.0)
        assert not ended
        stalls.go_on(root)
    assert ended == [2.0]
