"""A gateway with one well-behaved client, which requests of other clients must not disturb."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio
from structlog.testing import capture_logs

from tests.worlds.wire_client import WireClient, WireWorld, records_batch, wire_world
from tidegate_coordination.events.metadata_versions import NEWEST

MAX_EXTRA_BYTES = 24 << 20
TOPIC = "orders"
SETTLE_SECONDS = 1.0


class Neighboured:
    """A world with a topic "orders" of two partitions, an offender and a neighbour."""

    def __init__(self, world: WireWorld, topic_id: bytes, logs: list[Any]) -> None:
        self.world = world
        self.topic_id = topic_id
        self.offender = world.connect()
        self._neighbour = world.connect()
        self._logs = logs
        self._written = 0

    async def neighbour_works(self) -> None:
        """Write and read a record on the neighbour's connection."""
        value = b"from the neighbour %d" % self._written
        self._written += 1
        answer = await self._neighbour.produce(TOPIC, 1, records_batch(value))
        assert answer.error_code == 0, answer
        found = await self._neighbour.fetch_values(TOPIC, 1, answer.base_offset)
        assert found == [value]

    @property
    def reasons(self) -> list[str]:
        """Return the logged reasons why connections were closed."""
        return [each["reason"] for each in self._logs if "reason" in each]

    @property
    def refused(self) -> list[Any]:
        """Return the log lines about requests that are not served."""
        return [each for each in self._logs if "advice" in each]

    @property
    def errors(self) -> list[Any]:
        """Return the errors in the log, each of which is a bug of Tidegate."""
        return [each for each in self._logs if each["log_level"] in ("error", "critical")]

    def connect(self) -> WireClient:
        """Open one more connection."""
        return self.world.connect()


@asynccontextmanager
async def neighboured(
    settings: dict[str, str] | None = None, *, highest_version: int = NEWEST
) -> AsyncIterator[Neighboured]:
    """Yield the world.  After the block the neighbour is still served, and no memory is held."""
    with capture_logs() as logs:
        async with wire_world(settings, highest_version=highest_version) as world:
            scene = Neighboured(world, await world.create_topic(TOPIC, 2), logs)
            await scene.neighbour_works()
            with bounded_memory():
                yield scene
                await scene.neighbour_works()
            scene.offender.transport.close()
            await trio.sleep(SETTLE_SECONDS)
            assert world.gateway.writes.pool.large_bytes == 0
    assert scene.errors == []


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Fail if the block ever needs more than MAX_EXTRA_BYTES of additional memory.

    Only resident memory counts: memory that is reserved and never touched costs nothing.
    """
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak (VmHWM)
    before = resident_bytes()
    yield
    assert resident_bytes("VmHWM") - before < MAX_EXTRA_BYTES


def resident_bytes(which: str = "VmRSS") -> int:
    """Return the resident memory of this process, or its peak (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    [line] = [each for each in status.splitlines() if each.startswith(f"{which}:")]
    return int(line.split()[1]) * 1024
