"""The audit log's file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tidegate_gateway.cli.audit.verify import run_audit_verify
from tidegate_gateway.security import audit_log
from tidegate_gateway.security.audit_chain import Chain, verify
from tidegate_gateway.security.audit_log import (
    AGAIN_SECONDS,
    EVERY_SECONDS,
    WRITE_SECONDS,
    AuditLog,
    open_audit_log,
)
from tidegate_gateway.work.blocking import Inline
from tidegate_runtime.settings_texts import SettingsError

Result = TypeVar("Result")


def now_ms() -> int:
    return 1_700_000_000_123


async def test_a_log_goes_on_after_a_restart_and_a_rename(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for life in ("first", "second"):
        log = open_audit_log(str(path), Inline(), now_ms)
        log.note("logged in", principal=f"User:{life}")
        await log.flush()
        log.close()
    log = open_audit_log(str(path), Inline(), now_ms)
    older = tmp_path / "audit.log.1"
    path.rename(older)
    log.note("denied", principal="User:second")
    await log.flush()
    lines = older.read_bytes().splitlines() + path.read_bytes().splitlines()
    assert len(lines) == 3
    assert verify(lines).broken == ()
    assert b'"time":"2023-11-14T22:13:20.123Z"' in lines[0]


async def test_a_line_that_a_crash_cut_off_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = open_audit_log(str(path), Inline(), now_ms)
    log.note("logged in")
    await log.flush()
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"n":2,"ti')
    log = open_audit_log(str(path), Inline(), now_ms)
    log.note("denied")
    await log.flush()
    first, cut, second = path.read_bytes().splitlines()
    assert verify([first, second]).broken == ()
    assert [each.line for each in verify([first, cut, second]).broken] == [2]


async def test_crashes_one_after_the_other_do_not_keep_a_gateway_from_its_start(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.log"
    lines: list[bytes] = []
    for life in range(4):
        log = open_audit_log(str(path), Inline(), now_ms)
        if life in (0, 3):  # the other gateways are killed before they write
            log.note("started")
            await log.flush()
            lines = path.read_bytes().splitlines()
        log.close()
        if life < 2:
            path.write_bytes(path.read_bytes() + b'\n{"n":2' * life + b'{"n":2,"ti')
    whole = [each for each in lines if each.endswith(b"}")]
    assert [b'"n":1' in whole[0], b'"n":2' in whole[1], len(whole)] == [True, True, 2]
    assert verify(whole).broken == ()


async def test_two_gateways_do_not_write_to_one_file(tmp_path: Path) -> None:
    """Their numbers and hashes would diverge, and the chain would be broken for ever."""
    path = tmp_path / "audit.log"
    log = open_audit_log(str(path), Inline(), now_ms)
    log.note("started")
    await log.flush()
    with pytest.raises(SettingsError, match="another gateway writes to it"):
        open_audit_log(str(path), Inline(), now_ms)
    path.rename(tmp_path / "audit.log.1")
    other = open_audit_log(str(path), Inline(), now_ms)
    log.note("denied")
    await log.flush()  # the line is kept in memory, as when the disk is full
    assert path.read_bytes() == b""
    other.close()
    await log.flush()
    lines = (tmp_path / "audit.log.1").read_bytes() + path.read_bytes()
    assert verify(lines.splitlines()).broken == ()


async def test_a_very_long_event_is_cut_and_the_log_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = open_audit_log(str(path), Inline(), now_ms)
    log.note("ACLs created", names=["\x01" * 40_000] * 1000, principal="p" * 40_000)
    await log.flush()
    log.close()
    log = open_audit_log(str(path), Inline(), now_ms)
    log.note("denied")
    await log.flush()
    lines = path.read_bytes().splitlines()
    assert verify(lines).broken == ()
    assert len(lines) == 2


async def test_a_file_system_without_locks_takes_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    log = open_audit_log(str(tmp_path / "audit.log"), Inline(), now_ms)
    log.note("started")
    await log.flush()
    assert b'"event":"started"' in (tmp_path / "audit.log").read_bytes()


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    with pytest.raises(SettingsError, match="move the file away"):
        open_audit_log(str(path), Inline(), now_ms)
    with pytest.raises(SettingsError, match="cannot be written"):
        open_audit_log(str(tmp_path), Inline(), now_ms)


async def test_what_a_full_disk_does_not_take_is_kept_and_counted(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(audit_log, "MAX_BYTES", 1000)
    written = bytearray()
    is_full = True

    def write(data: bytes) -> None:
        if is_full:
            raise OSError(28, "No space left on device")
        written.extend(data)

    log = AuditLog(Chain(), write, Inline(), now_ms)
    for number in range(20):
        log.note("denied", number=number)
        await log.flush()
    assert 0 < log.lost < 20
    is_full = False
    await log.flush()
    log.note("denied", number=20)
    await log.flush()
    lines = bytes(written).splitlines()
    assert verify(lines).broken == ()
    assert len(lines) == 20 - log.lost + 2
    assert f'"event":"events lost","count":{log.lost}'.encode() in lines[-2]


class Disk:
    """The disk under an audit log.  is_full: writes fail.  answers: until it is set, calls wait."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_full = False
        self.answers = trio.Event()
        self.answers.set()
        self.log = AuditLog(Chain(), self._write, self, now_ms)

    def _write(self, data: bytes) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.written += data

    async def run(self, function: Callable[[], Result]) -> Result:
        """Run like a thread, which continues when its caller is cancelled."""
        results: list[Result] = []

        async def work() -> None:
            await self.answers.wait()
            results.append(function())
            done.set()

        done = trio.Event()
        trio.lowlevel.spawn_system_task(work)
        await done.wait()
        return results[0]


async def waited(log: AuditLog) -> float:
    """Note an event, and return how long its answer waits."""
    began = trio.current_time()
    log.note("topics deleted")
    await log.written()
    return trio.current_time() - began


async def test_an_answer_waits_for_its_line_and_no_moment_longer(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    disk = Disk()
    nursery.start_soon(disk.log.run)
    await trio.sleep(1)
    assert await waited(disk.log) == 0
    assert bytes(disk.written).count(b"topics deleted") == 1
    disk.log.note("logged in")
    await trio.sleep(2 * EVERY_SECONDS)
    assert b"logged in" in disk.written
    assert disk.log.unwritten_answers == 0


async def test_answers_that_wait_at_once_share_a_write(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    disk, times = Disk(), list[float]()
    disk.answers = trio.Event()
    nursery.start_soon(disk.log.run)

    async def answer() -> None:
        times.append(await waited(disk.log))

    async with trio.open_nursery() as answers:
        for _ in range(100):
            answers.start_soon(answer)
        await trio.sleep(1)
        assert not times
        assert not disk.written
        disk.answers.set()
    assert times == [1.0] * 100
    assert verify(bytes(disk.written).splitlines()).broken == ()


async def test_no_answer_waits_for_a_full_disk(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    disk = Disk()
    disk.is_full = True
    nursery.start_soon(disk.log.run)
    with capture_logs() as lines:
        assert [await waited(disk.log) for _ in range(3)] == [0, 0, 0]
        assert disk.log.unwritten_answers == 3
        await trio.sleep(60)
        disk.is_full = False
        await trio.sleep(AGAIN_SECONDS)
    assert bytes(disk.written).count(b"topics deleted") == 3
    assert await waited(disk.log) == 0
    assert disk.log.unwritten_answers == 3
    events = [each["event"] for each in lines]
    assert events == ["the audit log cannot be written", "the audit log is written again"]


async def test_a_disk_that_does_not_answer_costs_one_wait_and_breaks_no_chain(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    disk = Disk()
    disk.answers = trio.Event()
    nursery.start_soon(disk.log.run)
    assert await waited(disk.log) == WRITE_SECONDS
    assert await waited(disk.log) == 0
    await trio.sleep(600)
    disk.answers.set()
    await trio.sleep(2 * AGAIN_SECONDS)
    assert await waited(disk.log) == 0
    lines = bytes(disk.written).splitlines()
    assert (len(lines), verify(lines).broken) == (3, ())
    assert disk.log.unwritten_answers == 2


async def test_the_end_does_not_wait_for_a_disk_that_does_not_answer(
    autojump_clock: MockClock,
) -> None:
    disk = Disk()
    disk.answers = trio.Event()
    disk.log.note("topics deleted")
    began = trio.current_time()
    await disk.log.end()
    assert trio.current_time() - began == WRITE_SECONDS
    disk.answers.set()
    await trio.sleep(1)
    assert len(bytes(disk.written).splitlines()) == 1


async def test_the_last_lines_tell_what_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "MAX_BYTES", 1000)
    written = bytearray()
    log = AuditLog(Chain(), written.extend, Inline(), now_ms)
    for number in range(20):
        log.note("denied", number=number)
    assert log.lost
    lost = log.lost
    await log.end()
    last, stopped = bytes(written).splitlines()[-2:]
    assert f'"event":"events lost","count":{lost}'.encode() in last
    assert b'"event":"stopped"' in stopped


def test_the_command_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain, path = Chain(), tmp_path / "audit.log"
    lines = [chain.line({"event": f"e{number}"}) for number in range(3)]
    path.write_bytes(b"".join(lines))
    assert run_audit_verify([path], as_json=False) == 0
    assert "The log is whole. Lines 1 to 3." in capsys.readouterr().out
    path.write_bytes(lines[0] + lines[2])
    assert run_audit_verify([path], as_json=False) == 1
    assert "line 2: its number is 3, and not 2" in capsys.readouterr().out
    assert run_audit_verify([tmp_path / "none"], as_json=True) == 2
