"""One process of a gateway: `tidegate serve` on the settings of its plan.

It ends when its standard input does, so it cannot outlive this process, however that ends.  Ctrl+C
in the terminal reaches only this process, which then stops the gateways.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio

from ...settings.settings_sources import KAFKA_PREFIX, PREFIX
from .plan import GatewayPlan, properties_text

MAX_LINE_BYTES: Final = 1 << 16
TAIL_BYTES: Final = 2048
# A longer log file is renamed when its gateway starts; only one older file is kept.
MAX_LOG_BYTES: Final = 8 << 20


class Child:
    """A started process; `ended` is set after its end."""

    def __init__(self, process: trio.Process, log_file: Path, log_begin: int) -> None:
        self.process = process
        self.ended = trio.Event()
        self._log_file = log_file
        self._log_begin = log_begin

    async def announcement(self) -> dict[str, Any] | None:
        """Wait until it serves; return the JSON that it prints, or None if it ends before."""
        assert self.process.stdout is not None, "it is a pipe"
        line = b""
        while not line.endswith(b"\n"):
            part = await self.process.stdout.receive_some()
            if not part or len(line) > MAX_LINE_BYTES:
                return None
            line += part
        said: dict[str, Any] = json.loads(line)
        return said

    async def wait(self) -> int:
        """Wait for its end and return the exit code; if cancelled, kill it."""
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

    def last_words(self) -> str:
        """Return the end of the log that this process wrote; "" for nothing."""
        with self._log_file.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            _ = file.seek(max(self._log_begin, end - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode(errors="replace").strip()


async def start_child(plan: GatewayPlan, log_level: str) -> Child:
    """Write a gateway's settings, and start it."""
    plan.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    plan.log_file.parent.mkdir(exist_ok=True)
    write_private(plan.settings_file, properties_text(plan.texts))
    make_room(plan.log_file)
    with plan.log_file.open("ab") as log:
        begin = log.tell()
        process = await trio.lowlevel.open_process(
            _command(plan, log_level),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=_environment(),
            process_group=0,
        )
        return Child(process, plan.log_file, begin)


def write_private(path: Path, content: str) -> None:
    """Write a file that only this user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        _ = file.write(content)


def make_room(path: Path) -> None:
    """Rename a log file that is longer than MAX_LOG_BYTES."""
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        _ = path.replace(path.with_suffix(".log.1"))


def _command(plan: GatewayPlan, log_level: str) -> list[str]:
    words = [sys.executable, "-m", "tidegate_gateway", "serve", "--stop-at-eof", "--json"]
    words += ["--properties", str(plan.settings_file), "--data", str(plan.folder)]
    return [*words, "--log-level", log_level]


def _environment() -> dict[str, str]:
    """Return the environment without settings, which `tidegate dev` does not read from there."""
    ours = (PREFIX, KAFKA_PREFIX)
    return {name: text for name, text in os.environ.items() if not name.startswith(ours)}
