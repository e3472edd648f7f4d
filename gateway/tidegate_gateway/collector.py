"""Python's cycle collector, as a process that serves has it."""

from __future__ import annotations

import gc


def calm_collector() -> None:
    """What was made at the start lives on, and requests leave few cycles: look for them rarely.

    A profile of ingest in 16 KiB batches had a tenth of all CPU in the collector.  What a large
    request makes lives until it is answered: with 20 in the place of 5 the collector looked at so
    much of it at once that the event loop stood for 70 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 5, 400)
