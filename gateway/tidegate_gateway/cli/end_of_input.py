"""Stops a gateway at the end of its standard input: its parent process closed it, or has ended."""

from __future__ import annotations

import os
import signal
from threading import Thread


def stop_at_end_of_input() -> None:
    """From now on, send this process a SIGTERM at the end of its input, which must hold nothing."""
    # The parent passes it on, also where no listener has certificates to look for.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Thread(target=_stop_at_eof, daemon=True).start()


def _stop_at_eof() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
