"""A progress bar on a terminal; without a terminal, log lines show the progress."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


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


class _Rate(ProgressColumn):
    """Shows MiB/s."""

    def render(self, task: Task) -> Text:
        speed = task.speed
        return Text("" if speed is None else f"{speed / (1 << 20):.1f} MiB/s")


class ImportBar:
    """Shows how many bytes are imported, the speed, and the time that is left."""

    def __init__(self, *, is_shown: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            _Rate(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not is_shown,
        )
        self._task = self._progress.add_task("importing", total=None)

    def __enter__(self) -> ImportBar:
        """Show the bar."""
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        self._progress.stop()

    def __call__(self, done: int, left: int) -> None:
        """See ImportDriver's on_progress."""
        self._progress.update(self._task, completed=done, total=done + left)


def is_terminal() -> bool:
    """Return whether the output is a terminal."""
    return sys.stderr.isatty()
