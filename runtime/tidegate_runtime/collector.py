"""Python's cycle collector, as a process that serves has it."""

from __future__ import annotations

import gc


def calm_collector() -> None:
    """What was made at the start lives on, and requests leave few cycles: look for them rarely.

    A profile of ingest in 16 KiB batches had a tenth of all CPU in the collector.  What a large
    request makes lives until it is answered, and the event loop stands while the collector looks at
    it: for 60 ms and more with thresholds of 50,000 and 5, for 3 with these (docs/performance.md).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 1, 15_000)
