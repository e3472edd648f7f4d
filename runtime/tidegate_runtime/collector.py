"""Settings of Python's cycle collector for a process that serves clients."""

from __future__ import annotations

import gc


def calm_collector() -> None:
    """Make the collector run rarely, and skip the objects that exist now.

    Objects that exist at the start live as long as the process, and requests leave few cycles.  In
    a profile of ingest in 16 KiB batches, the collector took a tenth of all CPU.

    The objects of a large request live until its answer, and the event loop stops while the
    collector visits them: 60 ms and more with thresholds of 50,000 and 5, 3 ms with these
    (docs/performance.md).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 1, 15_000)
