"""Requests and snapshots walk no table in one step of the event loop, however many rows it has.

The test counts the lines of Python that the longest step executes, and the rows that it sorts, with
small tables and with larger ones.  So it does not depend on the speed of the machine.  Requests
that list everything are tested with thousands of rows, the others with a million.
`compat-tests/run dear-tables` measures all of them with a million.
"""

from __future__ import annotations

import builtins
import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wide_tables import SETTINGS, TABLES, Table
from tests.worlds.wire_client import wire_world
from tidegate_coordination.log.snapshots import encode_state
from tidegate_gateway.network import large_requests
from tidegate_protocol.messages.find_coordinator import FindCoordinatorRequest

pytestmark = pytest.mark.slow

FEW: Final = 3_000
MANY: Final = 6_000
MILLION: Final = 1_000_000
LINES_A_ROW: Final = 0.1
"""A copy of a table is no line of Python; to merge sorted runs of a thousand rows takes some."""

LINES_A_SORTED_ROW: Final = 5
"""In time."""


class Lines(trio.abc.Instrument):
    """Counts lines and sorted rows of each step of a task, without the task `own` and upkeep."""

    def __init__(self, own: trio.lowlevel.Task) -> None:
        self.most = 0
        self.count = 0
        self._own = own

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count = 0
        if task is not self._own and not task.name.endswith("Upkeep.keep_running"):
            sys.settrace(self._trace)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        is_counted = sys.gettrace() is not None
        sys.settrace(None)
        if is_counted and self.count > self.most:
            self.most = self.count

    def _trace(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        if event == "line":
            self.count += 1
        return self._trace

    def sorted(self, rows: Any, **more: Any) -> list[Any]:
        """Replace Python's sorted()."""
        found = _sorted(rows, **more)
        self.count += LINES_A_SORTED_ROW * len(found)
        return found


_sorted = sorted


async def longest_steps(table: Table, rows: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return the lines of the longest step of each request, and of a snapshot of listed tables."""
    found: dict[str, int] = {}
    async with wire_world(settings=SETTINGS) as world:
        await world.create_topic("t", 1)
        client = world.connect()
        # The call makes __consumer_offsets now; later all groups would be added to it at once.
        await client.call("FindCoordinator", 3, FindCoordinatorRequest("group-0", 0))
        state = world.gateway.coordinator.state
        table.fill(state, rows)
        # An entry after the filling, since else the ACLs would be newer than the log.
        await world.create_topic("later", 1)

        async def watched(name: str, work: Callable[[], Awaitable[Any]]) -> None:
            lines = Lines(trio.lowlevel.current_task())
            trio.lowlevel.add_instrument(lines)
            try:
                with monkeypatch.context() as patched:
                    patched.setattr(builtins, "sorted", lines.sorted)
                    # Otherwise the long turns of a writer would hide the growth of other steps.
                    patched.setattr(large_requests, "STEPS_A_TURN", 1)
                    await work()
            finally:
                trio.lowlevel.remove_instrument(lines)
            found[name] = lines.most

        async def snapshot() -> None:
            # Use another task, since the test's own task is not watched.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(encode_state, state)

        if table.is_listed:
            await watched("snapshot", snapshot)
        for number, (name, version, request) in enumerate(table.requests()):
            ask = partial(client.call, name, version, request)
            await watched(f"{number} {name}", ask)
    return found


def grown(few: dict[str, int], many: dict[str, int], rows: float) -> dict[str, tuple[int, int]]:
    """Return the steps whose executed lines grow by more than the limit for `rows` more rows."""
    most = LINES_A_ROW * rows
    return {name: (few[name], many[name]) for name in many if many[name] - few[name] > most}


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Turn the garbage collector off; it would scan a million rows again and again."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", TABLES)
async def test_no_step_grows_with_a_table(
    name: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = await longest_steps(TABLES[name], FEW, monkeypatch)
    many = await longest_steps(TABLES[name], MANY, monkeypatch)
    assert grown(few, many, MANY - FEW) == {}


@pytest.mark.parametrize("name", [name for name, each in TABLES.items() if not each.is_listed])
async def test_a_million_rows_make_no_step_longer(
    name: str,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    without_collector: None,
) -> None:
    few = await longest_steps(TABLES[name], FEW, monkeypatch)
    many = await longest_steps(TABLES[name], MILLION, monkeypatch)
    assert grown(few, many, MANY - FEW) == {}, "no more than some thousand rows may take"
