"""Runs a server on free ports; the server ends with this process at the latest."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from . import lifeline
from .child import make_room

READY_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.05
TAIL_BYTES: Final = 2000
MAX_PORT: Final = 65_535


INSTALL: Final = "pip install '.[dev]' in the checkout"


class ServerFailed(Exception):
    """A server that `--real` needs does not run.  The text names it and says why."""


@dataclass(frozen=True, slots=True)
class Program:
    """A server's program.  user: "" for this user.  stop: the signal for a clean end."""

    name: str
    command: Sequence[str]
    folder: Path
    log_file: Path
    stop: int
    user: str = ""
    environment: Mapping[str, str] | None = None


@asynccontextmanager
async def running(
    program: Program, is_ready: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[None]:
    """Run the server until the block ends; the block begins when the server is ready.

    Raises:
      ServerFailed: the server is not ready within READY_SECONDS, or has ended.
    """
    make_room(program.log_file)
    with program.log_file.open("ab") as log:
        process = await trio.lowlevel.open_process(
            [
                *(sys.executable, "-m", lifeline.__name__, str(program.stop), program.user),
                *program.command,
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=program.folder,
            env=program.environment,
            process_group=0,
        )
    try:
        await _wait_until_ready(program, process, is_ready)
        yield
    finally:
        with trio.CancelScope(shield=True):
            await _end(process)


async def _end(process: trio.Process) -> None:
    """Close the pipe; lifeline.py then ends the server."""
    assert process.stdin is not None, "it is a pipe"
    await process.stdin.aclose()
    with trio.move_on_after(4 * lifeline.STOP_SECONDS):
        _ = await process.wait()
        return
    process.kill()
    _ = await process.wait()


async def _wait_until_ready(
    program: Program, process: trio.Process, is_ready: Callable[[], Awaitable[bool]]
) -> None:
    with trio.move_on_after(READY_SECONDS):
        while process.poll() is None:
            if await is_ready():
                return
            await trio.sleep(LOOK_SECONDS)
    words = program.log_file.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()
    raise ServerFailed(f"{program.name} did not start: {words}")


def free_ports(count: int, *, and_above: int = 0) -> list[int]:
    """Return ports of 127.0.0.1 that were free a moment ago.

    Args:
      and_above: if not 0, each returned port plus this number is a free port, too.
    """
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            if not and_above or _is_free(port + and_above):
                ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    if port > MAX_PORT:
        return False
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
