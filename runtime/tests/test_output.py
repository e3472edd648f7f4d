"""Output that accepts no lines: no task waits for it, and dropped lines are counted."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
import structlog

from tidegate_runtime import output
from tidegate_runtime.line_rates import UNLIMITED
from tidegate_runtime.log_lines import configure_logs
from tidegate_runtime.output import DROPPED_TEXT, ProcessOutput

PATIENCE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(output, "FLUSH_SECONDS", PATIENCE_SECONDS)
    yield
    structlog.reset_defaults()


@contextmanager
def stderr_to(raw: io.RawIOBase, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(raw)))
    yield


def read_to_end(number: int, into: bytearray) -> None:
    while data := os.read(number, 1 << 16):
        into += data


@pytest.mark.parametrize("is_blocking", [True, False])
def test_nothing_waits_for_a_pipe_that_no_process_reads(
    is_blocking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MAX_BYTES", 50_000)
    reading, writing = os.pipe()
    os.set_blocking(writing, is_blocking)
    found, received = ProcessOutput(), bytearray()
    reader = Thread(target=read_to_end, args=(reading, received))
    with stderr_to(io.FileIO(writing, "w"), monkeypatch):
        with found.queued():
            configure_logs("info", as_json=True, always={"process": 2})
            log = structlog.get_logger("tidegate.test", UNLIMITED)
            for number in range(3000):
                log.info("line", number=number)
            assert found.dropped()["stderr"] > 1000
            reader.start()
        sys.stderr.close()
    reader.join(PATIENCE_SECONDS)
    os.close(reading)
    events = [json.loads(each) for each in received.splitlines()]
    [told] = [each for each in events if each["event"] == DROPPED_TEXT]
    assert (told["count"], told["process"]) == (found.dropped()["stderr"], 2)
    assert len(events) - 1 + told["count"] == 3000
    assert [each["number"] for each in events[:-1]] == list(range(len(events) - 1))


class Trouble(io.RawIOBase):
    """Takes `room` bytes; then each write fails until it has more room."""

    def __init__(self, number: int, room: int) -> None:
        super().__init__()
        self.number = number
        self.room = room
        self.received = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        if not self.room:
            raise OSError(self.number, os.strerror(self.number))
        taken = bytes(memoryview(data)[: self.room])
        self.received += taken
        self.room -= len(taken)
        return len(taken)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE, errno.EIO])
def test_a_line_is_written_whole_once_the_output_works_again(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, found = Trouble(number, room=4), ProcessOutput()
    with stderr_to(raw, monkeypatch):
        with found.queued():
            print("first", file=sys.stderr)
            print("second", file=sys.stderr)
            queued: output.QueuedText = sys.stderr  # type: ignore[assignment]
            assert not queued.output.flush(PATIENCE_SECONDS)
            raw.room = 100
        assert raw.received == b"firs\nfirst\nsecond\n"
        assert found.dropped()["stderr"] == 0


def test_an_output_that_stays_broken_keeps_no_process_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw, found = Trouble(errno.EPIPE, room=0), ProcessOutput()
    with stderr_to(raw, monkeypatch):
        with found.queued():
            print("first", file=sys.stderr)
        print("a traceback, after the end", file=sys.stderr)  # does not fail
        raw.room = 100
        queued: output.QueuedText = sys.stderr  # type: ignore[assignment]
        assert queued.output.flush(PATIENCE_SECONDS)
    assert raw.received == b"first\na traceback, after the end\n"


def test_the_outputs_are_as_before_after_the_block(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    found = ProcessOutput()
    with found.queued():
        with found.queued():
            print("a", end="")
        print("b\nc")
        print("the end of a line may come late", end="", file=sys.stderr)
        assert not sys.stdout.isatty()
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr() == ("ab\nc\n", "the end of a line may come late")


def test_a_print_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """With single writes, lines of processes that share an output do not mix."""
    writes: list[bytes] = []

    class Raw(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any, /) -> int:
            writes.append(bytes(data))
            return len(writes[-1])

    with stderr_to(Raw(), monkeypatch), ProcessOutput().queued():
        print("one", "line", file=sys.stderr, flush=True)
        print("a banner\nof two lines", file=sys.stderr)
    assert writes == [b"one line\n", b"a banner\nof two lines\n"]


def test_a_process_without_standard_error_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with ProcessOutput().queued():
        configure_logs("info")
        structlog.get_logger("tidegate.test").info("line")
    sys.stderr.close()
