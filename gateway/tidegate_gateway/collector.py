"""Python's cycle collector, as a process that serves has it."""

from __future__ import annotations

import gc


def calm_collector() -> None:
    """What was made at the start lives on, and requests leave few cycles: look for them rarely.

    A profile of ingest in 16 KiB batches had a tenth of all CPU in the collector.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
