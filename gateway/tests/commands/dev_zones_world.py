"""`tidegate dev --zones` as a process that reads commands from a pipe."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.worlds.forked_process import start_tidegate

PATIENCE_SECONDS = 120.0


@dataclass
class DevZones:
    """said: its first line of JSON.  Later sentences are on stderr."""

    popen: subprocess.Popen[bytes]
    said: dict[str, Any]
    _rest: bytes = b""

    @property
    def gateways(self) -> list[dict[str, Any]]:
        return list(self.said["gateways"])

    def say(self, line: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(f"{line}\n".encode())
        self.popen.stdin.flush()

    def hear(self, words: str) -> str:
        """Wait for a line on stderr with these words; return all lines up to it."""
        heard = ""
        assert self.popen.stderr is not None
        while words not in heard:
            if b"\n" not in self._rest:
                ready, _, _ = select.select([self.popen.stderr], [], [], PATIENCE_SECONDS)
                part = self.popen.stderr.read1(4096) if ready else b""  # type: ignore[attr-defined]
                assert part, f"{words!r} was not said: {heard}"
                self._rest += part
            line, _, self._rest = self._rest.partition(b"\n")
            heard += line.decode() + "\n"
        return heard

    def status(self) -> dict[str, Any]:
        self.say("status")
        return read_json(self.popen)


def read_json(popen: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert popen.stdout is not None
    ready, _, _ = select.select([popen.stdout], [], [], PATIENCE_SECONDS)
    line = popen.stdout.readline() if ready else b""
    if not line:
        popen.kill()
        raise AssertionError(f"it did not start: {popen.communicate()[1].decode()}")
    found: dict[str, Any] = json.loads(line)
    return found


@contextmanager
def dev_zones(*arguments: str, data: Path, zones: int = 3) -> Iterator[DevZones]:
    """Run it until the block ends."""
    command = ["dev", "--json", "--data", str(data)]
    command += ["--zones", str(zones), "--port", "0", "--admin-port", "0", *arguments]
    popen = start_tidegate(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield DevZones(popen, read_json(popen))
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.communicate()
