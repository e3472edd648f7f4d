"""Clients take turns in a pool."""

from __future__ import annotations

import pytest

from tidegate_gateway.work.fair_turns import Bounds, FairTurns, QueueFull


def turns(
    max_running: int = 2,
    max_waiting: int = 100,
    max_of_client: int = 50,
    max_bytes: int = 100,
    max_bytes_of_client: int = 60,
) -> FairTurns[str]:
    of_all, of_client = Bounds(max_waiting, max_bytes), Bounds(max_of_client, max_bytes_of_client)
    return FairTurns(max_running, of_all, of_client)


def test_a_client_has_one_running_job() -> None:
    line = turns()
    for name in ("a1", "a2", "b1"):
        assert line.add(name[0], name) == []
    assert [line.next(), line.next()] == ["a1", "b1"]
    line.done("b")
    assert line.next() is None
    line.done("a")
    assert line.next() == "a2"


def test_clients_take_turns() -> None:
    line = turns(max_running=1)
    for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
        line.add(name[0], name)
    order = []
    while (job := line.next()) is not None:
        order.append(job)
        line.done(job[0])
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert len(line) == line.running == 0


def test_a_client_that_comes_later_waits_for_one_job_of_each_other() -> None:
    line = turns(max_running=1)
    for number in range(40):
        line.add("a", f"a{number}")
    assert line.next() == "a0"
    line.add("b", "b0")
    line.done("a")
    assert line.next() == "a1"
    line.done("a")
    assert line.next() == "b0"


def test_no_more_jobs_run_than_may() -> None:
    line = turns(max_running=2)
    for client in "abc":
        line.add(client, client)
    assert [line.next(), line.next(), line.next()] == ["a", "b", None]


def test_a_client_has_a_bound_of_its_own() -> None:
    line = turns(max_of_client=2)
    line.add("a", "a1")
    line.add("a", "a2")
    with pytest.raises(QueueFull):
        line.add("a", "a3")
    assert line.add("b", "b1") == []
    assert len(line) == 3


def test_in_a_full_queue_the_client_with_most_jobs_loses_its_newest() -> None:
    line = turns(max_waiting=4)
    for name in ("a1", "a2", "a3", "b1"):
        line.add(name[0], name)
    assert line.add("c", "c1") == ["a3"]
    assert len(line) == 4
    # All clients have nearly as many jobs, so the asking client is refused, and no job leaves.
    with pytest.raises(QueueFull):
        line.add("b", "b2")
    with pytest.raises(QueueFull):
        line.add("a", "a4")


def test_a_job_that_left_does_not_run() -> None:
    line = turns(max_running=1)
    for name in ("a1", "b1", "b2"):
        line.add(name[0], name)
    line.leave("a", "a1")
    line.leave("b", "b1")
    assert (line.next(), line.next(), len(line)) == ("b2", None, 0)


def test_a_client_has_a_bound_of_bytes_of_its_own() -> None:
    line = turns(max_bytes_of_client=10)
    line.add("a", "a1", 6)
    with pytest.raises(QueueFull):
        line.add("a", "a2", 5)
    line.add("a", "a3", 4)
    line.add("b", "b1", 6)
    assert (len(line), line.size_bytes) == (3, 16)
    assert [line.next(), line.next(), line.size_bytes] == ["a1", "b1", 4]


def test_a_job_larger_than_a_bound_waits_alone() -> None:
    line = turns(max_running=1, max_bytes=10, max_bytes_of_client=5)
    assert line.add("a", "a1", 50) == []
    with pytest.raises(QueueFull):
        line.add("b", "b1", 51)
    assert line.next() == "a1"
    assert line.size_bytes == 0
    assert line.add("b", "b1", 50) == []


def test_beyond_the_bytes_the_client_with_most_of_them_loses_its_newest_jobs() -> None:
    line = turns(max_bytes=100, max_bytes_of_client=60)
    for name, size_bytes in (("a1", 20), ("a2", 20), ("a3", 10), ("b1", 5), ("b2", 5), ("c1", 40)):
        line.add(name[0], name, size_bytes)
    assert line.size_bytes == 100
    with pytest.raises(QueueFull):
        line.add("d", "d1", 50)  # no other client has more bytes
    with pytest.raises(QueueFull):
        line.add("c", "c2", 10)
    assert (len(line), line.size_bytes) == (6, 100), "who is refused takes no place"
    assert line.add("b", "b3", 15) == ["a3", "a2"]
    assert (len(line), line.size_bytes) == (5, 85)
    # Jobs and bytes have separate bounds, so many jobs without bytes and a few large jobs do not
    # hide each other.
    assert line.add("d", "d1", 10) == []
    line.leave("c", "c1")
    assert line.size_bytes == 55
