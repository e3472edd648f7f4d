"""Log lines about a metadata log that does not answer, and about its return."""

from __future__ import annotations

import trio
import trio.testing
from structlog.testing import capture_logs

from tidegate_coordination.log.access import LogAccess
from tidegate_coordination.log.metadata_log import LogEntry, LogUnavailable, Trimmed
from tidegate_coordination.logs.memory import MemoryLog


class Away(MemoryLog):
    """Does not answer the next few reads."""

    silent = 0

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        if self.silent:
            self.silent -= 1
            raise LogUnavailable("no route")
        return await super().read(from_position, max_bytes)


async def test_the_first_answer_after_an_outage_is_logged_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = Away()
    access = LogAccess(log)
    with capture_logs() as lines:
        await access.read(1)
        log.silent = 3
        await access.read(1)
        await access.append(1, b"a")
        await access.read(2)
    assert [each["log_level"] for each in lines] == ["warning", "info"]
    assert lines[-1]["event"] == "the metadata log answers again"
    assert 0.3 <= lines[-1]["away_seconds"] <= 0.4


async def test_after_a_timeout_the_next_caller_logs_the_logs_return(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = Away()
    access = LogAccess(log)
    with capture_logs() as lines:
        log.silent = 1_000_000
        with trio.move_on_after(10):
            await access.read(1)
        log.silent = 0
        await access.read(1)
    assert [each["event"] for each in lines][-1] == "the metadata log answers again"
    assert lines[-1]["away_seconds"] == 10
