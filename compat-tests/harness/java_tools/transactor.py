"""Transactional producers that run beside the tools (java/Transactor.java)."""

from __future__ import annotations

import subprocess
from typing import IO, cast

from harness.places import HERE
from harness.toolbox import java_command


class Transactor:
    """A JVM with producers; started at the first step."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._jvm: subprocess.Popen[str] | None = None

    def step(self, words: str) -> str:
        """Take one step; return its outcome."""
        if self._jvm is None:
            self._jvm = subprocess.Popen(
                [*java_command(), str(HERE / "java" / "Transactor.java"), self._bootstrap],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        steps, answers = cast(IO[str], self._jvm.stdin), cast(IO[str], self._jvm.stdout)
        steps.write(f"{words}\n")
        steps.flush()
        return answers.readline().rstrip("\n")

    def close(self) -> None:
        """End the JVM; transactions stay open."""
        if self._jvm:
            self._jvm.kill()
            self._jvm.communicate()
            self._jvm = None
