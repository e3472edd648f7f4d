"""Messages to a service manager, on a socket as systemd's."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
import trio
from trio.testing import MockClock

from tidegate_runtime.service_manager import ServiceManager, service_manager

PID = 7


@pytest.fixture(params=["path", "abstract"])
def notify(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """The manager's end of the socket that NOTIFY_SOCKET names."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@{token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as server:
        server.bind(f"\0{name[1:]}" if name[0] == "@" else name)
        yield server, name


def heard(server: socket.socket) -> list[list[str]]:
    messages = []
    while True:
        try:
            messages.append(server.recv(4096).decode().split("\n"))
        except BlockingIOError:
            return messages


def test_states(notify: tuple[socket.socket, str]) -> None:
    server, name = notify
    manager = service_manager({"NOTIFY_SOCKET": name}, PID)
    manager.ready("serving")
    manager.stopping("draining")
    assert heard(server) == [
        ["STATUS=starting"],
        ["READY=1", "STATUS=serving"],
        ["STOPPING=1", "STATUS=draining"],
    ]


async def test_a_running_loop_feeds_the_watchdog(autojump_clock: MockClock) -> None:
    sent: list[str] = []
    manager = ServiceManager(sent.append, 10.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(manager.feed)
        await trio.sleep(4)
        manager.ready("serving")
        await trio.sleep(12)
        nursery.cancel_scope.cancel()
    starting = "STATUS=starting\nEXTEND_TIMEOUT_USEC=10000000"
    serving = "READY=1\nSTATUS=serving"
    fed = f"{serving}\nWATCHDOG=1"
    assert sent == [starting, f"{starting}\nWATCHDOG=1", serving, fed, fed, fed]


async def test_a_stalled_loop_does_not() -> None:
    sent: list[str] = []
    manager = ServiceManager(sent.append, 0.02)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(manager.feed)
        await trio.testing.wait_all_tasks_blocked()
        before = len(sent)
        time.sleep(0.1)  # noqa: ASYNC251 - the stall
        assert len(sent) == before
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30.0),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": ""}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_the_units(
    notify: tuple[socket.socket, str], environ: dict[str, str], seconds: float | None
) -> None:
    server, name = notify
    service_manager({"NOTIFY_SOCKET": name, **environ}, PID)
    state = ["STATUS=starting"]
    if seconds is not None:
        state.append(f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}")
    assert heard(server) == [state]


async def test_nothing_is_fed_without_a_watchdog() -> None:
    await service_manager({"WATCHDOG_USEC": "1000"}, PID).feed()


@pytest.mark.parametrize("name", ["", "vsock:2:1", "/nothing/here"])
def test_without_a_manager_nothing_happens(name: str) -> None:
    manager = service_manager({"NOTIFY_SOCKET": name}, PID)
    manager.ready("serving")


def test_a_manager_that_does_not_read_costs_nothing(notify: tuple[socket.socket, str]) -> None:
    server, name = notify
    manager = service_manager({"NOTIFY_SOCKET": name}, PID)
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(2000):
        manager.ready("serving")
    assert 0 < len(heard(server)) < 2000
    assert set(os.listdir("/proc/self/fd")) == before
