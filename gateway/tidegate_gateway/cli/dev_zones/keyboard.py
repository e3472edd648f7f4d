"""Lines from standard input, if it is a terminal or a pipe.  End of input stops no gateway."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator
from typing import Final

import trio

MAX_LINE_BYTES: Final = 4096
_LOOK_SECONDS: Final = 1.0


async def typed_lines(descriptor: int = 0) -> AsyncGenerator[str, None]:
    """Yield each line; none if standard input is neither a terminal nor a pipe.

    This reads only when bytes are there, so the descriptor can stay blocking.  To make it
    non-blocking would affect all processes that share it, such as the shell.
    """
    if not _can_be_waited_for(descriptor):
        return
    rest = b""
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        if _is_anothers(descriptor):
            await trio.sleep(_LOOK_SECONDS)
            continue
        part = os.read(descriptor, MAX_LINE_BYTES)
        if not part:
            return
        *lines, rest = (rest + part).split(b"\n")
        rest = rest[-MAX_LINE_BYTES:]
        for line in lines:
            yield line[:MAX_LINE_BYTES].decode(errors="replace")


def _can_be_waited_for(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False  # the descriptor is closed
    return os.isatty(descriptor) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _is_anothers(descriptor: int) -> bool:
    """Return whether this process is in the background of a terminal: a read would stop it."""
    return os.isatty(descriptor) and os.tcgetpgrp(descriptor) != os.getpgrp()
