"""Work on a whole snapshot.

The work runs in a thread, because requests would wait for it too long.
"""

from collections.abc import Callable
from typing import TypeVar

import trio

_T = TypeVar("_T")


async def computed(work: Callable[[], _T], *, in_loop: bool) -> _T:
    """Call `work` in a thread; return its result.  in_loop: call it without a thread, as in a
    simulation.
    """
    if not in_loop:
        return await trio.to_thread.run_sync(work)
    await trio.lowlevel.checkpoint()
    return work()
