"""Settings of glibc's allocator for this process.

A task allocates and frees a hundred megabytes, some of them in threads.  By default glibc returns
much of that to the kernel each time and gets it back a page at a time, cleared, which costs as much
CPU as everything else in a merge.  Memory that threads freed stays in their own heaps, which no
other thread uses.  With one heap that keeps one task's memory for the next, a worker is both
quicker and smaller.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, Final

# Parameters of mallopt(3).
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8

KEPT_BYTES: Final = 256 << 20
LARGE_BYTES: Final = 32 << 20  # glibc's largest value


def keep_memory() -> bool:
    """Set it for good; call it before threads start.  Return whether all settings took effect."""
    mallopt = _mallopt()
    if mallopt is None:
        return False
    wanted = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGE_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES))
    return all([mallopt(name, value) == 1 for name, value in wanted])


def _mallopt() -> Callable[[int, int], int] | None:
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return None
    if not version.startswith("glibc"):
        return None
    library: Any = ctypes.CDLL(None)
    mallopt: Callable[[int, int], int] = library.mallopt
    return mallopt
