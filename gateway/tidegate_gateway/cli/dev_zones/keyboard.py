"""Lines from standard input, where that is a terminal or a pipe; its end ends nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator
from typing import Final

import trio

MAX_LINE_BYTES: Final = 4096
_LOOK_SECONDS: Final = 1.0


async def typed_lines(descriptor: int = 0) -> AsyncGenerator[str, None]:
    """Yield each line; none where it is neither a terminal nor a pipe.

    It is read only when something is there, so that it need not be made non-blocking: that would be
    so for all who share it, the shell among them.
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
        return False  # it is closed
    return os.isatty(descriptor) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _is_anothers(descriptor: int) -> bool:
    """Tell whether it is a terminal where we are in the background: reading would stop us."""
    return os.isatty(descriptor) and os.tcgetpgrp(descriptor) != os.getpgrp()
