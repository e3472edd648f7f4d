"""A bare Debian in a folder, and a shell in it without a network."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from image.machine import CannotRun, Failed, codename

PROGRAMS: Final = ("mmdebstrap", "unshare", "ip", "chroot")
COMMAND_SECONDS: Final = 180.0
_READ_BYTES: Final = 1 << 16
_DONE: Final = re.compile(rb"-- newcomer: the step ended with (\d+) --\n\Z")
_SAY_DONE: Final = 'echo "-- newcomer: the step ended with $? --"'
_INSIDE: Final = (
    'ip link set lo up && mount -t proc proc "$0/proc" && cd "$0" && '
    'exec chroot "$0" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root LANG=C.UTF-8 bash'
)


def need() -> None:
    """Look for the needed programs.

    Raises:
      CannotRun: one is missing.
    """
    if os.geteuid() != 0:
        raise CannotRun("only root can make a root")
    if missing := [each for each in PROGRAMS if shutil.which(each) is None]:
        raise CannotRun(f"there is no {', no '.join(missing)}")
    if not codename():
        raise CannotRun("this system is not Debian, whose release the root would have")


class Shell:
    """A bash in a root.  Its processes, mounts and loopback are its own, and end with it."""

    def __init__(self, root: Path) -> None:
        self._script = root / "tmp" / "step.sh"
        alone = ("--net", "--pid", "--mount", "--fork", "--kill-child")
        self._popen = subprocess.Popen(
            ["unshare", *alone, "sh", "-c", _INSIDE, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._stdin, self._stdout = self._popen.stdin, self._popen.stdout
        self.run("cd")

    def run(self, typed: str) -> tuple[int, str]:
        """Run commands; return the exit code of the last one, and all that they print.

        Raises:
          Failed: they do not end, or end the shell.
        """
        self._script.write_text(typed, encoding="utf-8")
        self._stdin.write(f". /tmp/step.sh < /dev/null; {_SAY_DONE}\n".encode())
        self._stdin.flush()
        return self._outcome()

    def stop(self) -> None:
        """End all processes in it."""
        self._popen.kill()
        self._popen.wait(COMMAND_SECONDS)
        self._stdin.close()
        self._stdout.close()

    def _outcome(self) -> tuple[int, str]:
        deadline = time.monotonic() + COMMAND_SECONDS
        printed = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            while (done := _DONE.search(printed)) is None:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise Failed(f"no end after {COMMAND_SECONDS:.0f} s:\n{_text(printed)}")
                piece = os.read(self._stdout.fileno(), _READ_BYTES)
                if not piece:
                    raise Failed(f"the shell has ended:\n{_text(printed)}")
                printed += piece
        return int(done[1]), _text(printed[: done.start()])


def _text(printed: bytes) -> str:
    return printed.decode(errors="replace")
