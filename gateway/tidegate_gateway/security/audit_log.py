"""The audit log of a gateway: logins, denials, and what clients changed, in a file with a chain.

If a request changed something, its answer waits until its line is on the disk.  Logins and denials
are written a moment later, so the last ones are lost if the gateway is killed.  If the disk does
not take lines, the gateway continues: answers no longer wait, the gateway keeps up to MAX_BYTES of
lines, and later writes how many lines it had to drop.  Any tool may rename the file at any time;
the next lines go to a new one (audit_file.py).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, cast

import structlog
import trio

from tidegate_runtime.settings_texts import SettingsError

from ..audit import MAX_ITEMS
from ..work.blocking import Blocking
from .audit_chain import Chain
from .audit_file import AuditFile, InUse, NotAudit

_log = structlog.get_logger("tidegate.audit")

MAX_BYTES: Final = 4 << 20
EVERY_SECONDS: Final = 0.2
AGAIN_SECONDS: Final = 5.0
WRITE_SECONDS: Final = 5.0
"""A write that takes longer has failed for now: no answer waits for it."""
WAIT_SECONDS: Final = 2 * WRITE_SECONDS
"""For the write under way, and the next one."""
MAX_TEXT: Final = 500


class AuditLog:
    """See the module's head.

    write: appends bytes to the file and syncs it; blocks. blocking: runs the write in a thread; if
    cancelled, it may leave the write running. close: closes the file. lost: the number of dropped
    events. unwritten_answers: the number of answers that were sent before their events were on the
    disk.
    """

    def __init__(
        self,
        chain: Chain,
        write: Callable[[bytes], None],
        blocking: Blocking,
        now_ms: Callable[[], int],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.lost = 0
        self.unwritten_answers = 0
        self._close = close
        self._chain = chain
        self._write = write
        self._blocking = blocking
        self._now_ms = now_ms
        self._unwritten = bytearray()
        self._untold = 0
        self._has_failed = False
        self._noted_bytes = self._written_bytes = 0
        self._under_way: _Write | None = None
        self._is_awaited = trio.Event()
        self._turn = trio.Event()  # set after the next write

    def note(self, event: str, **facts: object) -> None:
        """See audit.py."""
        if len(self._unwritten) >= MAX_BYTES:
            self.lost += 1
            self._untold += 1
            return
        if self._untold:
            untold, self._untold = self._untold, 0
            self._add("events lost", count=untold)
        self._add(event, **facts)

    def _add(self, event: str, **facts: object) -> None:
        time = datetime.fromtimestamp(self._now_ms() / 1000, UTC)
        text = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        bounded = {name: _bounded(value) for name, value in facts.items()}
        line = self._chain.line({"time": text, "event": event, **bounded})
        self._unwritten += line
        self._noted_bytes += len(line)

    def close(self) -> None:
        """Close the file, unless a thread still writes to it."""
        if self._under_way is None:
            self._close()

    async def written(self) -> None:
        """See audit.py."""
        end = self._noted_bytes
        with trio.move_on_after(WAIT_SECONDS):
            while self._written_bytes < end and not self._has_failed:
                self._is_awaited.set()
                await self._turn.wait()
        if self._written_bytes < end:
            self.unwritten_answers += 1

    async def run(self) -> None:
        """Write forever: at once if an answer waits for a line, else a moment later."""
        while True:
            with trio.move_on_after(AGAIN_SECONDS if self._has_failed else EVERY_SECONDS):
                await self._is_awaited.wait()
            self._is_awaited = trio.Event()
            await self.flush()

    async def end(self) -> None:
        """Write what is left, and that the gateway stops."""
        # flush first to make room: the last lines may have to say how many events were lost
        await self.flush()
        self.note("stopped")
        await self.flush()

    async def flush(self) -> None:
        """Write the lines that are not written yet; keep them if the write fails.

        One caller at a time.
        """
        if self._under_way is None and self._unwritten:
            await self._begin(_Write(bytes(self._unwritten)))
        if self._under_way is not None:
            self._note_outcome(self._under_way)
        turn, self._turn = self._turn, trio.Event()
        turn.set()

    async def _begin(self, write: _Write) -> None:
        # No cancellation here: lines that are written a second time would break the chain.
        self._under_way = write
        with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITE_SECONDS):
            await self._blocking.run(partial(write.do, self._write))

    def _note_outcome(self, write: _Write) -> None:
        if not write.is_done:
            return self._note_failure(f"the disk does not answer within {WRITE_SECONDS:g} s")
        self._under_way = None
        if write.error:
            return self._note_failure(write.error)
        del self._unwritten[: len(write.data)]
        self._written_bytes += len(write.data)
        if self._has_failed:
            _log.warning("the audit log is written again", events_lost=self._untold)
        self._has_failed = False

    def _note_failure(self, error: str) -> None:
        if not self._has_failed:
            _log.error("the audit log cannot be written", error=error)
        self._has_failed = True


class _Write:
    """One write, which may last longer than its caller waits.

    error: "" once the data is on the disk.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.is_done = False
        self.error = "it failed"

    def do(self, write: Callable[[bytes], None]) -> None:
        """Write; blocks."""
        try:
            write(self.data)
            self.error = ""
        except OSError as error:
            self.error = str(error)
        finally:
            self.is_done = True


def _bounded(value: object) -> object:
    """Return a value, shortened to fit a line: clients choose names, and how many they send."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}..."
    if isinstance(value, list):
        items = cast("list[object]", value)
        texts = [_bounded(each) for each in items[:MAX_ITEMS]]
        left = len(items) - len(texts)
        return [*texts, f"... and {left} more"] if left else texts
    return value


def open_audit_log(path: str, blocking: Blocking, now_ms: Callable[[], int]) -> AuditLog:
    """Open the file and continue after its last line.  Reads the file, so it blocks.

    Raises:
      SettingsError: the file cannot be written, is in use by another gateway, or is no audit log.
    """
    try:
        file = AuditFile(Path(path))
    except InUse:
        raise SettingsError(
            f"audit.log.file={path}: another gateway writes to it. Name another file, or stop that"
            " gateway"
        ) from None
    except OSError as error:
        raise SettingsError(f"audit.log.file={path} cannot be written: {error.strerror}") from error
    except NotAudit as error:
        raise SettingsError(
            f"audit.log.file={path} ends with a line that is not of an audit log ({error}): move"
            " the file away, or name another"
        ) from error
    return AuditLog(file.chain, file.write, blocking, now_ms, file.close)
