"""The steps of an event loop, and the memory of this process."""

from __future__ import annotations

import time
from pathlib import Path

import trio


class Steps(trio.abc.Instrument):
    """The longest step of all tasks but `own`, and the longest run of Python's collector.

    In seconds of CPU.
    """

    def __init__(self, own: trio.lowlevel.Task | None = None) -> None:
        self.longest = self.longest_collection = 0.0
        self.task = ""
        self._own = own
        self._began = self._collection_began = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took = time.thread_time() - self._began
        if task is not self._own and took > self.longest:
            self.longest, self.task = took, task.name

    def on_collection(self, phase: str, info: object) -> None:
        """See gc.callbacks."""
        now = time.thread_time()
        if phase == "start":
            self._collection_began = now
        else:
            self.longest_collection = max(self.longest_collection, now - self._collection_began)


def peak_kib() -> int:
    """Return the largest resident size that this process had."""
    return _status_kib("VmHWM")


def _status_kib(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0])


def reset_peak_kib() -> int:
    """Forget the peak; return the present size in KiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status_kib("VmRSS")
