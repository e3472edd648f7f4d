"""The public contract: passes on our logs, and fails on broken ones for the right reason."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.broken_logs import BROKEN, same
from tidegate_coordination.log.metadata_log import LogEntry, Trimmed
from tidegate_coordination.log_contract.checks import OpenLog
from tidegate_coordination.log_contract.contract import CHECKS, verify_log
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.logs.sqlite.log import open_file


async def findings(open_log: OpenLog) -> dict[str, str]:
    """The checks that failed, with their sentences."""
    reported: list[tuple[str, bool, str]] = []
    good = await verify_log(open_log, lambda *row: reported.append(row))
    failed = {name: text for name, held, text in reported if not held}
    assert good is not bool(failed)
    assert all(text for _, _, text in reported)
    assert len(reported) in (1, 1 + len(CHECKS))
    return failed


async def test_memory_keeps_the_contract(autojump_clock: MockClock) -> None:
    assert await findings(same(MemoryLog())) == {}


async def test_sqlite_in_a_thread_keeps_the_contract(tmp_path: Path) -> None:
    assert await findings(lambda: open_file(tmp_path / "log.db")) == {}


async def test_sqlite_in_the_loop_keeps_the_contract(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    assert await findings(lambda: open_file(tmp_path / "log.db", in_loop=True)) == {}


async def test_verify_refuses_a_log_in_use() -> None:
    log = MemoryLog()
    await log.append(1, b"precious")
    failed = await findings(same(log))
    assert list(failed) == ["starts empty"]
    assert "need a fresh one" in failed["starts empty"]
    assert await log.read(1, 100) == [LogEntry(1, b"precious")]


async def test_verify_refuses_a_trimmed_log() -> None:
    log = MemoryLog()
    await log.trim(7)
    assert list(await findings(same(log))) == ["starts empty"]


@pytest.mark.parametrize(("open_log", "check", "words"), BROKEN)
async def test_the_report_names_the_broken_promise(
    open_log: OpenLog, check: str, words: str, autojump_clock: MockClock
) -> None:
    failed = await findings(open_log)
    assert words in failed.get(check, f"held, but these failed: {failed}")


class _TrimsLate(MemoryLog):
    """A cancelled trim takes effect late, after a read that did not see it."""

    _late_trim = 0

    async def trim(self, before_position: int) -> None:
        try:
            await trio.sleep(1.0)
        except trio.Cancelled:
            self._late_trim = before_position
            raise
        await super().trim(before_position)

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        found = await super().read(from_position, max_bytes)
        late_trim, self._late_trim = self._late_trim, 0
        if late_trim:
            await super().trim(late_trim)
        return found


async def test_a_cancelled_trim_may_take_effect_later(autojump_clock: MockClock) -> None:
    assert await findings(same(_TrimsLate())) == {}
