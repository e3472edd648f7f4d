"""`tidegate pipeline run` with tasks so small that the load of one machine makes many of them.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/pipeline/small_tasks.py --data DIR

The driver is the same, but tasks, the chunks of a segment, and the map of keys are small.  A round
of compaction ends where the map is full.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tidegate_pipeline.commands.options import Options
from tidegate_pipeline.commands.resident import Residence, run_resident
from tidegate_pipeline.planning.limits import MergeSettings

TASK_BYTES = 96 << 10
CHUNK_BYTES = 8 << 10
MAP_BYTES = 24 << 10


class SmallTasks(Options):
    """The options of `tidegate pipeline run`, with small tasks."""

    def merge_settings(self) -> MergeSettings:
        """Return how to plan."""
        return replace(
            Options.merge_settings(self),
            task_bytes=TASK_BYTES,
            chunk_bytes=CHUNK_BYTES,
            map_bytes=MAP_BYTES,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--master", default="")
    parser.add_argument("--runner", default=None)
    parser.add_argument("--speculation", action="store_true")
    for name in ("segment-bytes", "rest-ms", "patience-ms"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--interval-seconds", type=float, required=True)
    parser.add_argument("--log-level", default="info")
    asked = parser.parse_args(arguments)
    options = SmallTasks(
        asked.data,
        object_store=None,
        log=None,
        runner=asked.runner,
        master=asked.master,
        max_failures=4,
        speculation=asked.speculation,
        segment_bytes=asked.segment_bytes,
        rest_ms=asked.rest_ms,
        patience_ms=asked.patience_ms,
    )
    residence = Residence(asked.interval_seconds, admin="", stop_at_eof=False)
    return run_resident(options, residence, log_level=asked.log_level)


if __name__ == "__main__":
    sys.exit(main())
