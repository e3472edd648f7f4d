"""Standard output and error of a process that serves: separate threads write them.

Otherwise a pipe that no process reads, a pipe whose reader has ended, or a full disk would block
the event loop or end the process.  Here lines wait in a queue; once it is full, further lines are
dropped and counted.  The thread tries again until the output accepts the lines.  Whole lines are
written at once, so that lines of several processes do not mix.

Libraries that write to the descriptors by themselves, and child processes, are not covered.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from threading import Condition, Event, RLock, Thread
from typing import Any, Final, Protocol, TextIO

from .line_queue import LineQueue

OUTPUTS: Final = ("stdout", "stderr")
MAX_BYTES: Final = 1 << 20
"""The most bytes of lines that wait for one output."""
MAX_PART: Final = 1 << 16
"""Characters of a line that may wait for its end."""
AGAIN_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 2.0
"""How long the end of a process waits for each output."""

DROPPED_TEXT: Final = "lines were dropped here, which this output did not take in time"

TellDropped = Callable[[int], bytes]


class RawFile(Protocol):
    """A file that a thread writes to; may block."""

    def write(self, data: memoryview, /) -> int | None:
        """Write a part and return its size; None if a non-blocking file accepts nothing now."""
        ...

    def fileno(self) -> int:
        """Return the descriptor."""
        ...


class WrittenInThread:
    """Writes lines to a file from a daemon thread, which starts with the first line."""

    def __init__(self, raw: RawFile, tell_dropped: TellDropped) -> None:
        self._raw = raw
        self._queue = LineQueue(MAX_BYTES, tell_dropped)
        # Its lock is reentrant: a finalizer may print while its thread adds a line.
        self._turn = Condition()
        self._hurry = Event()
        self._failures = 0
        self._thread: Thread | None = None

    @property
    def dropped(self) -> int:
        """Lines that did not fit into the queue."""
        return self._queue.dropped

    def tell_dropped_by(self, tell: TellDropped) -> None:
        """Set the function that makes the line about dropped lines."""
        self._queue.tell_dropped = tell

    def add(self, lines: bytes) -> None:
        """Queue whole lines; never waits for the file."""
        with self._turn:
            self._queue.add(lines)
            self._turn.notify_all()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="output", daemon=True)
                self._thread.start()

    def flush(self, seconds: float) -> bool:
        """Wait until all is written, the file fails once more, or the time is up.

        Return whether all is written.
        """
        with self._turn:
            failures = self._failures
            self._hurry.set()
            _ = self._turn.wait_for(
                lambda: not self._queue or self._failures > failures, timeout=seconds
            )
            return not self._queue

    def _run(self) -> None:
        while True:
            with self._turn:
                while (lines := self._queue.first()) is None:
                    _ = self._turn.wait()
            self._write(lines)
            with self._turn:
                self._queue.remove_first()
                self._turn.notify_all()

    def _write(self, lines: bytes) -> None:
        """Write all; try again until it is done."""
        rest = memoryview(lines)
        while rest:
            try:
                count = self._raw.write(rest)
                if count is None:
                    _ = select.select([], [self._raw], [], AGAIN_SECONDS)
                else:
                    rest = rest[count:]
            except (OSError, ValueError):  # ValueError: the file was closed
                if len(rest) < len(lines):
                    # ends a line of which a part is written
                    lines = b"\n" + lines.removeprefix(b"\n")
                rest = memoryview(lines)
                self._wait_after_failure()

    def _wait_after_failure(self) -> None:
        with self._turn:
            self._failures += 1
            self._turn.notify_all()
        _ = self._hurry.wait(AGAIN_SECONDS)
        self._hurry.clear()


class QueuedText(io.TextIOBase):
    """The text file that print() and loggers see; takes the place of sys.stdout or sys.stderr."""

    encoding: str = "utf-8"

    def __init__(self, shown: TextIO, output: WrittenInThread) -> None:
        super().__init__()
        self.output: Final = output
        self._shown = shown
        self._part = ""
        self._lock = RLock()
        self.encoding = shown.encoding or "utf-8"

    def write(self, text: str, /) -> int:
        """Take text; once a line ends it is written soon."""
        with self._lock:
            self._part += text  # print() gives the end of a line by itself
            if text.endswith("\n") or len(self._part) > MAX_PART:
                self.flush()
        return len(text)

    def flush(self) -> None:
        """Have the taken lines written soon."""
        with self._lock:
            if self._part:
                part, self._part = self._part, ""
                self.output.add(part.encode(self.encoding, "backslashreplace"))

    def isatty(self) -> bool:
        """Return whether the output is a terminal."""
        return self._shown.isatty()

    def fileno(self) -> int:
        """Return the descriptor; a caller that writes to it may wait."""
        return self._shown.fileno()

    def writable(self) -> bool:
        """Return True."""
        return True


class ProcessOutput:
    """The outputs of this process."""

    def __init__(self) -> None:
        self._outputs: dict[str, WrittenInThread] = {}
        self._shown: dict[str, TextIO] = {}

    def dropped(self) -> Mapping[str, int]:
        """Return the dropped lines by output."""
        return {name: each.dropped for name, each in self._outputs.items()}

    @contextmanager
    def queued(self) -> Generator[None, None, None]:
        """Write standard output and error by threads within the block.

        At the end of the block the queued lines are written, within FLUSH_SECONDS for each output.
        An output that accepts nothing by then keeps its queue, so that it does not delay the end of
        the process.
        """
        taken = [name for name in OUTPUTS if self._take(name)]
        try:
            yield
        finally:
            for name in taken:
                getattr(sys, name).flush()
                if self._outputs[name].flush(FLUSH_SECONDS):
                    setattr(sys, name, self._shown.pop(name))

    def _take(self, name: str) -> bool:
        """Return whether the output is queued from now on, and was not before."""
        found: Any = getattr(sys, name)
        if found is None:  # the process was started without it
            found = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        if isinstance(found, QueuedText) or not hasattr(found, "buffer"):
            return False
        # The thread writes without Python's buffers, whose locks it would hold while it waits.
        raw = getattr(found.buffer, "raw", found.buffer)
        self._outputs[name] = WrittenInThread(raw, _told)
        self._shown[name] = found
        setattr(sys, name, QueuedText(found, self._outputs[name]))
        return True


def _told(count: int) -> bytes:
    return f"tidegate: {DROPPED_TEXT}: {count}\n".encode()


PROCESS_OUTPUT: Final = ProcessOutput()
"""The output of this process."""
