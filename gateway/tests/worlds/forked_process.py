"""Starts `tidegate` processes fast: a server that has loaded its modules forks them.

Loading takes most of the time of a start: 1.4 s of CPU for `tidegate dev`.  A forked process has
the arguments, streams, folder, environment and ignored signals of an executed one.  It is a child
of the tests' process, too.  Tests of the start itself execute a process.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

PROGRAM: Final = (sys.executable, "-m", "tidegate_gateway")
SERVER: Final = "tests.worlds.forking_server"
# An option of Linux: orphans of this process's children become its own children.
PR_SET_CHILD_SUBREAPER: Final = 36
IGNORABLE: Final = (signal.SIGHUP, signal.SIGINT)


def start_tidegate(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] = os.environ,
    **streams: Any,
) -> subprocess.Popen[Any]:
    """Start a `tidegate` process.  streams: more arguments of Popen(), for its streams."""
    command = [*PROGRAM, *arguments]
    if _for_the_interpreter(env) == _for_the_interpreter(os.environ):
        return _Forked(command, cwd=cwd, env=env, **streams)
    return subprocess.Popen(command, cwd=cwd, env=env, **streams)


def run_tidegate(
    arguments: Sequence[str], *, seconds: float, given: bytes | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a `tidegate` process to its end; it is killed if that takes longer than `seconds`.

    given: its input.  options: arguments of start_tidegate().
    """
    if given is not None:
        options["stdin"] = subprocess.PIPE
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start_tidegate(arguments, **options) as popen:
        try:
            printed, errors = popen.communicate(given, seconds)
        finally:
            popen.kill()
    return subprocess.CompletedProcess(popen.args, popen.returncode, printed, errors)


def _for_the_interpreter(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an interpreter reads when it starts."""
    return {name: text for name, text in env.items() if name.startswith(("PYTHON", "LC_", "LANG"))}


class _Forked(subprocess.Popen[Any]):
    """A process that the server forks instead of one that is executed."""

    def _execute_child(self, args: list[str], *given: Any) -> None:
        """Override the method of Popen, which has the same arguments."""
        cwd, env, streams = given[4], given[5], given[9:15]
        told = {
            "arguments": args[len(PROGRAM) :],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(env),
            "ignored": [each for each in IGNORABLE if signal.getsignal(each) is signal.SIG_IGN],
        }
        inner = (streams[0], streams[3], streams[5])
        files = [number if given < 0 else given for number, given in enumerate(inner)]
        self.pid = _server().fork(json.dumps(told).encode(), files)
        self._child_created = True
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]


class _Server:
    def __init__(self) -> None:
        done = ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        assert done == 0
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = Lock()
        with other:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", SERVER, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )

    def fork(self, message: bytes, files: list[int]) -> int:
        """Fork a new process; return its id."""
        with self._lock:
            socket.send_fds(self._control, [message], files)
            return int(self._control.recv(64))

    def end(self) -> None:
        self._control.close()
        self._popen.wait()


@cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.end)
    return server
