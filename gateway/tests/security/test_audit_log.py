"""The audit log's file."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from tidegate_gateway.blocking import Inline
from tidegate_gateway.cli.audit.verify import run_audit_verify
from tidegate_gateway.security import audit_log
from tidegate_gateway.security.audit_chain import Chain, verify
from tidegate_gateway.security.audit_log import AuditLog, open_audit_log
from tidegate_runtime.settings_texts import SettingsError


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
        if life in (0, 3):  # the others are killed before they write
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
    """Their numbers and hashes would go apart, and the chain would be broken for good."""
    path = tmp_path / "audit.log"
    log = open_audit_log(str(path), Inline(), now_ms)
    log.note("started")
    await log.flush()
    with pytest.raises(SettingsError, match="another gateway writes to it"):
        open_audit_log(str(path), Inline(), now_ms)
    path.rename(tmp_path / "audit.log.1")
    other = open_audit_log(str(path), Inline(), now_ms)
    log.note("denied")
    await log.flush()  # it is kept, as when the disk is full
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
