"""Forks `tidegate` processes: `python -m tests.worlds.forking_server DESCRIPTOR`.

The server has loaded the modules of a gateway and its commands, but has run none of them.  Each
message on the socket DESCRIPTOR describes a process to fork (see forked_process.py).  The answer is
the id of the process.  The server forks an intermediate process, which forks the new one and ends
at once.  So the new process becomes a child of the tests' process.  The server ends when the other
end of the socket is closed.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import time
from importlib import import_module
from typing import Any, Final, TextIO

MAX_MESSAGE_BYTES: Final = 1 << 17
PROGRAM: Final = "tidegate_gateway"
PACKAGES: Final = ("tidegate_coordination", "tidegate_storage", PROGRAM)
# Typer loads this module, and pydantic, when it reads the first option.
LOADED_LATE: Final = "typer._adapters"
# Modules only for programs that import them; `testing` also loads a Docker client.
LEFT_OUT: Final = (f"{PROGRAM}.__main__", f"{PROGRAM}.testing")


def main() -> None:
    """Serve; in the forked processes, run the command."""
    # A Ctrl+C ends the tests, which end this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as control:
        load()
        process = forked(control)
    if process is not None:
        become(*process)
        runpy.run_module(PROGRAM, run_name="__main__", alter_sys=True)


def load() -> None:
    """Load all modules; a forked process shares their memory."""
    gc.disable()
    for package in map(import_module, PACKAGES):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not each.name.startswith(LEFT_OUT):
                import_module(each.name)
    import_module(LOADED_LATE)
    gc.collect()
    gc.freeze()
    gc.enable()
    # A fork copies only the thread that forks.
    assert len(os.listdir("/proc/self/task")) == 1


def forked(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork until the socket ends; in each new process, return its description and streams."""
    while True:
        message, files, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 3)
        if not message:
            return None
        pid = fork_without_parent()
        if not pid:
            return json.loads(message), files
        for each in files:
            os.close(each)
        control.send(str(pid).encode())


def fork_without_parent() -> int:
    """Fork a process whose parent is not this process; return its id, or 0 in the process."""
    reading, writing = os.pipe()
    between = os.fork()
    if not between:
        pid = os.fork()
        if pid:
            os.write(writing, str(pid).encode())
            os._exit(0)
        os.close(reading)
        os.close(writing)
        return 0
    os.close(writing)
    # Once the intermediate process has ended, the tests' process is the parent of its child.
    os.waitpid(between, 0)
    with open(reading, "rb") as pipe:
        return int(pipe.read())


def become(told: dict[str, Any], files: list[int]) -> None:
    """Make this process like one just executed: its streams, folder, environment, arguments."""
    for target, each in enumerate(files):
        os.dup2(each, target)
        os.close(each)
    sys.stdin = _opened_again(sys.stdin, "r")
    sys.stdout = _opened_again(sys.stdout, "w")
    sys.stderr = _opened_again(sys.stderr, "w")
    os.chdir(told["cwd"])
    os.environ.clear()
    os.environ.update(told["env"])
    time.tzset()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _handler(number, told["ignored"]))
    sys.path[0] = os.getcwd()
    sys.argv[:] = [PROGRAM, *told["arguments"]]


def _opened_again(stream: TextIO, mode: str) -> Any:
    """Open a standard stream as an interpreter does when it starts."""
    number = stream.fileno()
    is_by_line = number == 2 or os.isatty(number)
    how: dict[str, Any] = {"encoding": stream.encoding, "errors": stream.errors}
    return os.fdopen(number, mode, 1 if is_by_line else -1, closefd=False, **how)


def _handler(number: signal.Signals, ignored: list[int]) -> Any:
    if number in ignored:
        return signal.SIG_IGN
    return signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL


if __name__ == "__main__":
    main()
