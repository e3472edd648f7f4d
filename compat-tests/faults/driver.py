"""The pipeline beside gateways under load."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from harness.process import Process, spawn, tail

from faults.world import World

# The driver merges often and a little each time, so that it always has a segment to publish.
OPTIONS: Final = ("--runner", "local", "--rest-ms", "1000", "--patience-ms", "4000")


class Driver:
    """The pipeline's driver, of one release at a time.  It uses the links of gateway 1."""

    def __init__(self, world: World, log: Path) -> None:
        texts = world.gateways[1].texts
        self._words = ["--log", texts["metadata.log"], "--object-store", texts["object.store"]]
        self.log = log
        self._process: Process | None = None

    def start(self, python: Path = Path(sys.executable)) -> None:
        """Start it; it needs a moment before it publishes."""
        command = [str(python), "-m", "tidegate_gateway", "pipeline", "run"]
        self._process = spawn([*command, *self._words, *OPTIONS], self.log)

    def check(self) -> None:
        """Raise if it ended by itself."""
        if self._process is not None and self._process.popen.poll() is not None:
            raise RuntimeError(f"the driver ended by itself\n{tail(self.log)}")

    @property
    def segments(self) -> int:
        """The number of segments that it has published, by its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return sum(json.loads(each)["units"] for each in lines if '"event":"merged"' in each)

    def stop(self) -> None:
        """SIGTERM, and wait."""
        if self._process is not None:
            self._process.stop()
            self._process = None
