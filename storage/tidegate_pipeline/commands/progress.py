"""A progress bar on a terminal; without a terminal, log lines show the progress."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class RoundBar:
    """Shows how many of the planned units are done, while rounds are under way."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._progress: Progress | None = None

    def __call__(self, done: int, planned: int) -> None:
        """See Driver's on_progress."""
        if not planned:
            self.end()
        elif self._is_shown:
            self._show(done, planned)

    def _show(self, done: int, planned: int) -> None:
        if self._progress is None:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            _ = self._progress.add_task("working", total=planned)
            self._progress.start()
        self._progress.update(self._progress.task_ids[0], completed=done, total=planned)

    def end(self) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def is_terminal() -> bool:
    """Return whether the output is a terminal."""
    return sys.stderr.isatty()
