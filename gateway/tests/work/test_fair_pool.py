"""Work in threads: turns, cancelled work, and what clients are charged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import trio
from outcome import capture
from trio.testing import MockClock, wait_all_tasks_blocked

from tidegate_gateway.network.call import ANONYMOUS, Peer
from tidegate_gateway.network.receiver import CloseConnection
from tidegate_gateway.work.client import Client, key_of
from tidegate_gateway.work.fair_pool import (
    MAX_OF_CLIENT,
    MAX_WAITING,
    WAIT_SECONDS,
    FairPool,
    OnEnd,
    PoolBusy,
    ShouldStop,
    in_thread,
)


class Bench:
    """Stands for threads: the test ends a job, and says how many seconds it took."""

    def __init__(self) -> None:
        self.begun: list[tuple[Callable[[], Any], OnEnd]] = []

    def start(self, work: Callable[[], Any], on_end: OnEnd) -> None:
        self.begun.append((work, on_end))

    def end(self, index: int, seconds: float = 0.0) -> None:
        work, on_end = self.begun.pop(index)
        on_end(capture(work), seconds)


class Spent:
    """Stands for the cost of a request, and notes the spent seconds."""

    fetch_bytes: int | None = None

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def fetch(self, size_bytes: int, now_ms: int) -> bool:
        return True

    def mutations(self, *, is_strict: bool) -> None:
        return None

    def spend_seconds(self, seconds: float, now_ms: int) -> None:
        self.seconds.append(seconds)


async def test_the_result_and_the_error_of_a_job_reach_its_request() -> None:
    pool = FairPool(in_thread, 2)

    def fails(should_stop: ShouldStop) -> int:
        raise ValueError("as it says")

    assert await pool.run(Client("a"), lambda should_stop: threading.get_ident()) != (
        threading.get_ident()
    )
    with pytest.raises(ValueError, match="as it says"):
        await pool.run(Client("a"), fails)
    assert (pool.counters.jobs, pool.waiting) == (2, 0)


async def test_the_processor_time_of_a_thread_is_the_clients() -> None:
    pool, cost = FairPool(in_thread, 1), Spent()

    def computes(should_stop: ShouldStop) -> None:
        until = time.thread_time() + 0.01
        while time.thread_time() < until:
            pass

    await pool.run(Client("a", cost=cost), computes)
    assert len(cost.seconds) == 1
    assert cost.seconds[0] >= 0.01
    assert pool.counters.seconds == cost.seconds[0]


async def test_a_cancelled_request_stops_its_thread_and_does_not_wait_for_it() -> None:
    pool = FairPool(in_thread, 1)
    began, stopped = threading.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()

    def endless(should_stop: ShouldStop) -> None:
        began.set()
        while not should_stop():
            time.thread_time()
        token.run_sync_soon(stopped.set)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, Client("a"), endless)
        await trio.to_thread.run_sync(began.wait)
        nursery.cancel_scope.cancel()
    with trio.fail_after(60):
        await stopped.wait()
        # The thread of the cancelled work is free again.
        assert await pool.run(Client("a"), lambda should_stop: 1) == 1


async def test_a_thread_that_does_not_stop_stays_taken(autojump_clock: MockClock) -> None:
    bench = Bench()
    pool = FairPool(bench.start, 1)
    with trio.move_on_after(1):
        await pool.run(Client("a"), lambda should_stop: "late")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, Client("b"), lambda should_stop: "next")
        await wait_all_tasks_blocked()
        assert (len(bench.begun), pool.waiting) == (1, 1)
        bench.end(0)
        assert (len(bench.begun), pool.waiting) == (1, 0)
        bench.end(0)


async def test_a_thread_that_cannot_be_started_costs_the_pool_none() -> None:
    missing = 3

    def start(work: Callable[[], Any], on_end: OnEnd) -> None:
        nonlocal missing
        if missing:
            missing -= 1
            raise RuntimeError("can't start new thread")
        on_end(capture(work), 0.0)

    pool = FairPool(start, 1)
    for _ in range(3):
        with pytest.raises(PoolBusy, match="can't start new thread"):
            await pool.run(Client("a"), lambda should_stop: 1)
    assert await pool.run(Client("a"), lambda should_stop: 1) == 1
    assert (pool.counters.refused, pool.counters.jobs) == (3, 1)


async def test_a_waiting_job_whose_client_left_never_runs(autojump_clock: MockClock) -> None:
    bench = Bench()
    pool = FairPool(bench.start, 1)
    left: list[int] = []

    async def leaving() -> None:
        with pytest.raises(CloseConnection):
            await pool.run(Client("b", lambda: trio.current_time() > began + 5), lambda _: None)
        left.append(pool.waiting)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, Client("a"), lambda should_stop: None)
        await wait_all_tasks_blocked()
        nursery.start_soon(leaving)
        await trio.sleep(6)
        assert left == [0]
        bench.end(0)
        assert not bench.begun


async def test_a_running_job_whose_client_left_is_asked_to_stop(autojump_clock: MockClock) -> None:
    bench, cost = Bench(), Spent()
    pool = FairPool(bench.start, 1)
    asked: list[bool] = []
    with pytest.raises(CloseConnection):
        await pool.run(Client("a", lambda: True, cost), lambda stop: asked.append(stop()))
    bench.end(0, seconds=2.5)
    assert asked == [True]
    assert cost.seconds == [2.5], "a client that left has used its time all the same"


async def test_a_job_waits_for_a_bounded_time(autojump_clock: MockClock) -> None:
    bench = Bench()
    pool = FairPool(bench.start, 1)
    began = trio.current_time()
    with pytest.raises(PoolBusy):
        await pool.run(Client("a"), lambda should_stop: None)
    assert WAIT_SECONDS <= trio.current_time() - began <= WAIT_SECONDS + 1
    assert pool.counters.refused == 1


async def test_a_client_that_fills_the_pool_is_refused(autojump_clock: MockClock) -> None:
    bench = Bench()
    pool = FairPool(bench.start, 2)
    outcomes: list[str] = []

    async def one(client: str) -> None:
        try:
            outcomes.append(await pool.run(Client(client), lambda should_stop: client))
        except PoolBusy:
            outcomes.append("busy")

    async with trio.open_nursery() as nursery:
        for _ in range(MAX_OF_CLIENT.jobs + 3):
            nursery.start_soon(one, "many")
        await wait_all_tasks_blocked()
        assert outcomes == ["busy"] * 2
        nursery.start_soon(one, "other")
        await wait_all_tasks_blocked()
        assert len(bench.begun) == 2, "one job of each client runs"
        while bench.begun:
            bench.end(0)
            await wait_all_tasks_blocked()
    assert sorted(outcomes) == ["busy"] * 2 + ["many"] * (MAX_OF_CLIENT.jobs + 1) + ["other"]


async def test_the_bytes_of_waiting_jobs_are_bounded(autojump_clock: MockClock) -> None:
    bench = Bench()
    pool = FairPool(bench.start, 1)
    outcomes: list[str] = []

    async def one(client: str, size_bytes: int) -> None:
        try:
            outcomes.append(await pool.run(Client(client), lambda should_stop: client, size_bytes))
        except PoolBusy:
            outcomes.append(f"{client} busy")

    half = MAX_OF_CLIENT.size_bytes // 2
    async with trio.open_nursery() as nursery:
        for name, size_bytes in (
            *[("a", half)] * 3,  # the first job of a runs
            ("a", 1),
            *[("b", half)] * 2,
            ("c", half),
            ("d", 1),
        ):
            nursery.start_soon(one, name, size_bytes)
            await wait_all_tasks_blocked()
        assert MAX_WAITING.size_bytes == 4 * half
        assert outcomes == ["a busy", "a busy", "b busy"], "its own bound; for c; for d"
        assert pool.waiting_bytes == 3 * half + 1
        while bench.begun:
            bench.end(0)
            await wait_all_tasks_blocked()
    assert sorted(outcomes[3:]) == ["a", "a", "b", "c", "d"]
    assert (pool.waiting_bytes, pool.counters.refused) == (0, 3)


def test_a_client_is_known_by_what_it_cannot_choose() -> None:
    def peer(host: str, port: int, principal: str = ANONYMOUS, client_id: str = "c") -> Peer:
        return Peer(host, port, "PLAINTEXT", client_id, principal=principal)

    assert key_of(peer("10.0.0.1", 1)) == key_of(peer("10.0.0.1", 2, client_id="other"))
    assert key_of(peer("10.0.0.1", 1)) != key_of(peer("10.0.0.2", 1))
    assert key_of(peer("10.0.0.1", 1, "User:a")) == key_of(peer("10.0.0.2", 1, "User:a"))
    assert key_of(peer("10.0.0.1", 1, "User:a")) != key_of(peer("10.0.0.1", 1, "User:b"))
    assert key_of(peer("2001:db8::1", 1)) == key_of(peer("2001:db8::ffff:2", 1))
    assert key_of(peer("2001:db8::1", 1)) != key_of(peer("2001:db8:0:1::1", 1))
    assert key_of(peer("::ffff:10.0.0.1", 1)) != key_of(peer("::ffff:10.0.0.2", 1))
    assert key_of(peer("simulated-client", 1)) == "simulated-client"
