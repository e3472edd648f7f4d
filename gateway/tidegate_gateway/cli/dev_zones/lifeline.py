"""Runs a program that ends when standard input does: `python -m ... SIGNAL USER PROGRAM...`.

For servers that would outlive whoever started them.  This process dies with its parent's pipe, and
takes the server along: first with SIGNAL, after STOP_SECONDS by force.  USER: "" for our own.
Nothing but Python's own library is imported, so it costs little.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from threading import Thread
from typing import Final

# What SeaweedFS does in that time is done; it takes long to end by itself.
STOP_SECONDS: Final = 5.0


def main(words: list[str]) -> int:
    """Run it to its end; return its exit code."""
    number, user, *command = words
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, user=user or None)
    Thread(target=_end_at_eof, args=(process, int(number)), daemon=True).start()
    # Whoever wants it to end closes the pipe; Ctrl+C in a terminal is not for it.
    _ = signal.signal(signal.SIGINT, signal.SIG_IGN)
    return process.wait()


def _end_at_eof(process: subprocess.Popen[bytes], number: int) -> None:
    while os.read(0, 4096):
        pass
    process.send_signal(number)
    try:
        _ = process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
