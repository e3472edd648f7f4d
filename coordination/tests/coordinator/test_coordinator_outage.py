"""While the log does not answer, the coordinator keeps only proposals with a waiting caller."""

import gc
from random import Random

import pytest
import trio
import trio.testing

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.log.metadata_log import AppendResult, LogEntry, LogUnavailable, Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.state.cluster import ClusterState


class AwayLog(MemoryLog):
    """Takes no appends while it is away."""

    is_away = True

    async def append(self, position: int, payload: bytes) -> AppendResult:
        if self.is_away:
            await trio.sleep(1)
            raise LogUnavailable("planted")
        return await super().append(position, payload)


async def test_a_proposal_without_a_waiting_caller_is_not_appended_after_an_outage(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = AwayLog()
    coordinator = Coordinator(log, ClusterState(), rng=Random(0), wall_clock=lambda: 1000.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        for count in (1, 10, 100):
            with pytest.raises(CoordinatorUnavailable):
                await coordinator.propose(ReserveProducerIds(count))
        with trio.move_on_after(5):
            await coordinator.propose(ReserveProducerIds(1000))
        log.is_away = False
        # The first was on its way to the log, so it may be committed; the others cannot.
        assert await coordinator.propose(ReserveProducerIds(10_000)) == 1
        nursery.cancel_scope.cancel()


class SilentLog(AwayLog):
    """Answers no reads either."""

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        await trio.sleep_forever()
        raise AssertionError


async def test_a_caller_that_timed_out_on_the_end_of_the_log_leaves_no_waiter(
    autojump_clock: trio.testing.MockClock,
) -> None:
    coordinator = Coordinator(
        SilentLog(), ClusterState(), rng=Random(0), wall_clock=lambda: 1000.0, away_seconds=3.0
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        before = events()
        for _ in range(100):
            with pytest.raises(CoordinatorUnavailable):
                await coordinator.catch_up()
        assert events() - before < 10
        nursery.cancel_scope.cancel()


def events() -> int:
    gc.collect()
    return sum(isinstance(each, trio.Event) for each in gc.get_objects())
