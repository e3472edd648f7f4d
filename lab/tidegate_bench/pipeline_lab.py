"""A place with a store, a log and a pipeline of their own, for scenarios about the pipeline."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidegate_pipeline.commands.options import MAX_FAILURES, Options, why_no_spark
from tidegate_pipeline.planning.limits import MergeSettings

from .brokers.pipeline_process import PipelineProcess, Work, pipeline_process
from .brokers.stored_data import PlacedRecords, write_topic
from .errors import BenchError
from .lab import Lab

SLOTS: Final = 2
RUNNERS: Final[Mapping[str, int]] = {"local": 1, "spark": SLOTS}
"""The number of tasks at once, each with a core of its own."""


@dataclass(slots=True)
class PipelineLab:
    """See the module's head.  The pipeline starts with its first work."""

    runner: str
    store_url: str
    log_url: str
    folder: Path
    stack: ExitStack
    _process: PipelineProcess | None = field(default=None, init=False)

    @property
    def at_once(self) -> int:
        """Return the number of tasks at once."""
        return RUNNERS[self.runner]

    def write(
        self,
        topic: str,
        partitions: int,
        batches: Iterable[PlacedRecords],
        configs: Mapping[str, str] | None = None,
    ) -> int:
        """Write a topic as gateways would; return its bytes."""
        return write_topic(self.store_url, self.log_url, topic, partitions, batches, configs)

    def do(self, what: str) -> Work:
        """Merge or compact everything."""
        if self._process is None:
            self._process = self.stack.enter_context(pipeline_process(self._options, self.folder))
        return self._process.do(what)

    @property
    def _options(self) -> Options:
        return Options(
            self.folder,
            self.store_url,
            self.log_url,
            self.runner,
            f"local[{SLOTS}]" if self.runner == "spark" else "",
            MAX_FAILURES,
            speculation=False,
            segment_bytes=MergeSettings().segment_bytes,
            rest_ms=0,
            patience_ms=0,
        )


@contextmanager
def pipeline_lab(lab: Lab, runner: str) -> Generator[PipelineLab]:
    """Run a pipeline on a fresh place, which is removed at the end.

    Raises:
      BenchError: no other process sees the store, or there is no Spark.
    """
    if lab.options.store == "memory":
        raise BenchError("a pipeline cannot read a store in memory: give --store file or seaweedfs")
    if runner == "spark" and (reason := why_no_spark()):
        raise BenchError(f"no Spark here: {reason}; --only local leaves it out")
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        store_url = lab.store.open_place(folder)
        stack.callback(lab.store.drop_place, store_url)
        log_url = f"sqlite:{folder}/metadata.db"
        lab.say(f"pipeline: {runner}")
        yield PipelineLab(runner, store_url, log_url, folder, stack)
