"""Runs `tidegate` commands in processes that are forked from one that has loaded their modules.

Each of these is a process of its own, as at a shell, but it begins in a tenth of the time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

_MODULES: Final = (
    "tidegate_coordination.classic.cluster",
    "tidegate_gateway.__main__",
    "tidegate_gateway.cli.command",
    "tidegate_gateway.cli.group.changes",
    "tidegate_gateway.cli.group.command",
    "tidegate_gateway.cli.group.looks",
    "tidegate_gateway.cli.kafka_cluster",
    "tidegate_gateway.cli.topic.admin",
    "tidegate_gateway.cli.topic.command",
    "tidegate_gateway.cli.topic.consume",
    "tidegate_gateway.cli.topic.produce",
)


class Done(NamedTuple):
    """code: the exit code.  stdout, stderr: all that it wrote."""

    code: int
    stdout: bytes
    stderr: bytes


class ForkedCommands:
    """folder: for what goes in and out of a command."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([*_MODULES])

    def run(self, words: Sequence[str], stdin: bytes, seconds: float) -> Done:
        """Run a command to its end.

        Raises:
          TimeoutError: it did not end in time, and was killed.
        """
        places = [self._folder / name for name in ("stdin", "stdout", "stderr")]
        places[0].write_bytes(stdin)
        process = self._context.Process(target=_child, args=(list(words), *map(str, places)))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"tidegate {' '.join(words)} did not end within {seconds:g} s")
        return Done(process.exitcode, places[1].read_bytes(), places[2].read_bytes())


def _child(words: list[str], stdin: str, stdout: str, stderr: str) -> None:
    for number, path in enumerate((stdin, stdout, stderr)):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.argv = ["tidegate", *words]

    from tidegate_gateway.__main__ import main

    main()
