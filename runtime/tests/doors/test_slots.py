"""A client takes a slot once it is known; strangers have a separate share."""

from __future__ import annotations

from functools import partial

import trio
from trio.testing import wait_all_tasks_blocked

from tests.worlds.doors import entered
from tidegate_runtime.doors.slots import ConnectionSlots


async def test_strangers_take_no_slots() -> None:
    slots = ConnectionSlots(2, beside=4)
    for each in range(4):
        entered(slots, f"10.0.0.{each}")
    assert (slots.used, slots.strangers) == (4, 4)
    known = [entered(slots, "10.0.1.1"), entered(slots, "10.0.1.2")]
    assert [each.known() for each in known] == [True, True]
    assert not slots.is_full
    assert not entered(slots, "10.0.1.3").known()


async def test_an_old_stranger_is_closed_for_a_new_one() -> None:
    slots, closed = ConnectionSlots(2, beside=4), list[int]()
    visitors = [entered(slots, str(each), partial(closed.append, each)) for each in range(6)]
    assert (closed, slots.closed, slots.strangers) == ([0, 1], 2, 4)
    assert not visitors[0].known()
    for each in visitors:
        each.leave()
    assert (slots.used, slots.strangers) == (0, 0)


async def test_clients_wait_while_all_slots_are_taken() -> None:
    slots = ConnectionSlots(2)
    first = slots.enter("10.0.0.1", lambda: None, is_known=True)
    assert first is not None
    assert slots.enter("10.0.0.1", lambda: None, is_known=True) is not None
    assert slots.is_full
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slots.wait_free)
        await wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        first.leave()
    assert not slots.is_full


async def test_strangers_among_the_slots_make_room_for_a_client() -> None:
    """At one below max.connections, the last free slot is for the newest stranger."""
    slots, closed = ConnectionSlots(16), list[int]()
    for _ in range(14):
        assert entered(slots).known()
    for each in range(5):
        entered(slots, f"10.0.0.{each}", partial(closed.append, each))
    assert (slots.used, closed) == (16, [0, 1, 2])
    assert entered(slots, "10.0.1.1").known()
    assert entered(slots, "10.0.1.2").known()
    assert (slots.used, closed, slots.is_full) == (16, [0, 1, 2, 3, 4], True)


async def test_a_guest_between_requests_is_a_stranger_again() -> None:
    slots, closed = ConnectionSlots(1, beside=2), list[str]()
    guest = entered(slots, "10.0.0.1", partial(closed.append, "guest"))
    assert guest.known()
    guest.strange()
    assert (slots.strangers, slots.used) == (1, 1)
    for each in range(2):
        entered(slots, f"10.0.1.{each}")
    assert closed == ["guest"]
    assert not guest.known()
    guest.leave()
    assert slots.used == 2


async def test_a_client_counts_as_known_once() -> None:
    slots = ConnectionSlots(1, beside=1)
    client = entered(slots)
    assert client.known()
    assert client.known()
    client.leave()
    assert slots.used == 0
    assert entered(slots).known()


async def test_strangers_behind_a_proxy_count_by_their_own_addresses() -> None:
    slots, closed = ConnectionSlots(8, beside=4), list[int]()
    for each in range(4):
        visitor = entered(slots, "proxy", partial(closed.append, each))
        visitor.comes_from(f"10.0.0.{each}")
    assert closed == []
    entered(slots, "proxy", partial(closed.append, 4)).comes_from("10.0.0.9")
    assert closed == [0]


async def test_clients_that_enter_above_the_maximum_close_the_strangers_only() -> None:
    slots, closed = ConnectionSlots(2), list[int]()
    entered(slots, "10.0.0.1", partial(closed.append, 1))
    for _ in range(3):
        assert slots.enter("10.0.0.2", lambda: None, is_known=True) is not None
    assert (slots.used, closed, slots.is_full) == (3, [1], True)
