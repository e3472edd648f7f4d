"""Stops a gateway at the end of its standard input, which its parent process closes or leaves."""

from __future__ import annotations

import os
import signal
from threading import Thread


def stop_at_end_of_input() -> None:
    """From now on, send this process a SIGTERM at the end of its input; other input is ignored."""
    # The parent passes SIGHUP on, and without a handler SIGHUP would end this process.  With TLS a
    # handler replaces this one.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Thread(target=_stop_at_eof, daemon=True).start()


def _stop_at_eof() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
