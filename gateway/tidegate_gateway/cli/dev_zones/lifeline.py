"""Runs a program until standard input ends: `python -m ... SIGNAL USER PROGRAM...`.

This is for servers that would outlive the process that started them.  When the parent's pipe
closes, this process ends the server with SIGNAL, and kills the server after STOP_SECONDS.  USER may
be "" for the present user.  It imports only the standard library, so it starts fast and stays
small.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from threading import Thread
from typing import Final

# After this time SeaweedFS has finished its work, but its process takes longer to end.
STOP_SECONDS: Final = 5.0


def main(words: list[str]) -> int:
    """Run the program to its end; return its exit code."""
    number, user, *command = words
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, user=user or None)
    Thread(target=_end_at_eof, args=(process, int(number)), daemon=True).start()
    # The parent closes the pipe to end the program; Ctrl+C in a terminal must not end it.
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
