"""The audit log of a gateway: logins, denials, and what clients changed, in a file with a chain.

Lines are written a moment after the event, so the last ones are lost if the gateway is killed.  If
the disk does not take them, the gateway goes on: it keeps MAX_BYTES of them, and writes how many it
had to drop.  Any tool may rename the file at any time; the next lines go to a new one
(audit_file.py).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

import structlog
import trio

from tidegate_runtime.settings_texts import SettingsError

from ..audit import MAX_ITEMS
from ..blocking import Blocking
from .audit_chain import Chain
from .audit_file import AuditFile, InUse, NotAudit

_log = structlog.get_logger("tidegate.audit")

MAX_BYTES: Final = 4 << 20
EVERY_SECONDS: Final = 0.2
AGAIN_SECONDS: Final = 5.0
MAX_TEXT: Final = 500


class AuditLog:
    """See the module's head.

    write: appends bytes to the file and syncs it; blocks.  close: gives the file up.  lost: events
    that were dropped.
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
        self.close = close
        self._chain = chain
        self._write = write
        self._blocking = blocking
        self._now_ms = now_ms
        self._unwritten = bytearray()
        self._untold = 0
        self._has_failed = False

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
        self._unwritten += self._chain.line({"time": text, "event": event, **bounded})

    async def run(self) -> None:
        """Write forever."""
        while True:
            await trio.sleep(EVERY_SECONDS if not self._has_failed else AGAIN_SECONDS)
            await self.flush()

    async def end(self) -> None:
        """Write what is left, and that the gateway stops."""
        await self.flush()  # first, to make room: the last lines may have to tell what was lost
        self.note("stopped")
        await self.flush()

    async def flush(self) -> None:
        """Write what is not written yet; keep it if that fails."""
        data = bytes(self._unwritten)
        if not data:
            return
        try:
            await self._blocking.run(lambda: self._write(data))
        except OSError as error:
            if not self._has_failed:
                _log.error("the audit log cannot be written", error=str(error))
            self._has_failed = True
            return
        self._has_failed = False
        del self._unwritten[: len(data)]


def _bounded(value: object) -> object:
    """Return a value of which a line can hold all: clients choose names, and how many."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}..."
    if isinstance(value, list):
        items = cast("list[object]", value)
        texts = [_bounded(each) for each in items[:MAX_ITEMS]]
        left = len(items) - len(texts)
        return [*texts, f"... and {left} more"] if left else texts
    return value


def open_audit_log(path: str, blocking: Blocking, now_ms: Callable[[], int]) -> AuditLog:
    """Open the file and go on after its last line.  Reads the file, so it blocks.

    Raises:
      SettingsError: it cannot be written, is another gateway's, or is no audit log.
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
