"""One process of a gateway: `tidegate serve` with the settings of its plan.

The child ends at the end of its standard input, so it cannot outlive this process, even after a
kill.  Ctrl+C in the terminal reaches only this process, which then stops the gateways.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import trio

from ...settings.settings_sources import KAFKA_PREFIX, PREFIX
from ..child_process import ChildProcess
from .plan import GatewayPlan, properties_text

TAIL_BYTES: Final = 2048
# A longer log file is renamed when its gateway starts; only one older file is kept.
MAX_LOG_BYTES: Final = 8 << 20


class Child(ChildProcess):
    """A process, and the log that it writes."""

    def __init__(self, process: trio.Process, log_file: Path, log_begin: int) -> None:
        super().__init__(process)
        self._log_file = log_file
        self._log_begin = log_begin

    def last_words(self) -> str:
        """Return the end of the log of this child; "" if it logged nothing."""
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
