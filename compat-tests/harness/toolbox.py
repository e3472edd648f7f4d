"""Calls Kafka's command line tools, many in one JVM (java/Toolbox.java)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, cast

from harness import install
from harness.kafka_broker import LOG4J
from harness.places import HERE, WORK
from harness.process import Process, spawn

TOOL_JVM = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
TIMED_OUT = -1


@dataclass(frozen=True, slots=True)
class Printed:
    """The output of one call of a tool, and its exit status (TIMED_OUT: it hung)."""

    status: int
    stdout: str
    stderr: str


class Toolbox:
    """A JVM that runs tools one after another.  It starts at the first call and after a hang."""

    def __init__(self) -> None:
        self._jvm: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Toolbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM."""
        if self._jvm:
            self._jvm.kill()
            self._jvm.communicate()
            self._jvm = None

    def call(
        self, main: str, arguments: Sequence[str], *, stdin: str = "", seconds: int = 60
    ) -> Printed:
        """Run one tool to its end, `seconds` at most."""
        requests, replies = self._pipes()
        request = {"main": main, "args": list(arguments), "stdin": stdin, "seconds": seconds}
        requests.write(json.dumps(request).encode() + b"\n")
        requests.flush()
        line = replies.readline()
        if not line:
            self.close()
            return Printed(TIMED_OUT, "", "the JVM of the tools ended")
        reply = json.loads(line)
        if reply["exit"] == TIMED_OUT:
            self.close()
        return Printed(reply["exit"], reply["stdout"], reply["stderr"])

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._jvm is None:
            self._jvm = subprocess.Popen(
                [*java_command(), str(HERE / "java" / "Toolbox.java")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return cast(IO[bytes], self._jvm.stdin), cast(IO[bytes], self._jvm.stdout)


def java_command(*more: Path) -> list[str]:
    """Return `java` with the tools' class path and more folders.

    The tools log nothing, since log lines would mix with their output.
    """
    log4j = WORK / "tools-log4j2.properties"
    libs = install.kafka_jars()
    # Write another file and rename it, since the JVM of another worker may read this file now.
    written = WORK / f"{log4j.name}-{os.getpid()}"
    written.write_text(LOG4J.format(level="OFF"))
    written.replace(log4j)
    return [
        "java",
        *TOOL_JVM,
        f"-Dlog4j2.configurationFile={log4j}",
        "-cp",
        ":".join([f"{libs}/*", *map(str, more)]),
    ]


def call_alone(main: str, arguments: Sequence[str], *, seconds: int = 60) -> Printed:
    """Run one tool in a new JVM, for tools that finish their work when the JVM ends."""
    try:
        done = subprocess.run(
            [*java_command(), main, *arguments], capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as late:
        return Printed(TIMED_OUT, _text(late.stdout), _text(late.stderr))
    return Printed(done.returncode, _text(done.stdout), _text(done.stderr))


def _text(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace")


def spawn_tool(main: str, arguments: Sequence[str], log: Path) -> Process:
    """Start a tool in a JVM of its own that runs until it is stopped."""
    return spawn([*java_command(), main, *arguments], log)
