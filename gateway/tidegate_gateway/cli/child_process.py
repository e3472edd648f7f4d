"""A `tidegate serve` that this process started; it prints a line of JSON when it serves."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final, cast

import trio

MAX_LINE_BYTES: Final = 1 << 16


class ChildProcess:
    """A started process; `ended` is set after its end."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.ended = trio.Event()

    async def announcement(self) -> dict[str, Any] | None:
        """Wait until the child serves; return the JSON that it prints.

        Return None if the child ended before, or if its first line is no JSON object.
        """
        assert self.process.stdout is not None, "it is a pipe"
        line = b""
        while not line.endswith(b"\n"):
            try:
                part = await self.process.stdout.receive_some()
            except trio.ClosedResourceError:
                return None  # wait() has closed the pipe
            if not part or len(line) > MAX_LINE_BYTES:
                return None
            line += part
        try:
            said: object = json.loads(line)
        except ValueError:
            return None
        return cast("dict[str, Any]", said) if isinstance(said, dict) else None

    async def wait(self) -> int:
        """Wait for the child's end and return its exit code; if cancelled, kill the child."""
        try:
            return await self.process.wait()
        finally:
            with trio.CancelScope(shield=True):
                if self.process.returncode is None:
                    self.process.kill()
                    _ = await self.process.wait()
                await self._close()
            self.ended.set()

    async def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(trio.BrokenResourceError):
                    await pipe.aclose()
