"""A progress bar on a terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn


class BytesBar:
    """Shows how many bytes are done, if stderr is a terminal.  A context manager.

    total: all bytes, about.
    """

    def __init__(self, text: str, total: int, *, is_shown: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not (is_shown and sys.stderr.isatty()),
        )
        self._task = self._progress.add_task(text, total=total)

    def __enter__(self) -> BytesBar:
        """Show the bar."""
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        self._progress.stop()

    def add(self, size_bytes: int) -> None:
        """Count size_bytes more as done."""
        self._progress.advance(self._task, size_bytes)
