"""Takes over a terminal's screen and keys, and restores the terminal at the end."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

QUIT_KEYS: Final = frozenset(b"qQ\x03\x04")
_KEYS_AT_ONCE: Final = 64


class Screen:
    """A terminal's screen while whole_screen() has it."""

    def __init__(self, live: Live, console: Console) -> None:
        self._live = live
        self._console = console

    @property
    def size(self) -> tuple[int, int]:
        """Return the present numbers of columns and lines."""
        return self._console.width, self._console.height

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, and nothing else."""
        self._live.update(Text("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)


@contextmanager
def whole_screen() -> Generator[Screen]:
    """Take over the terminal.  SIGTERM ends the command as Ctrl+C does."""
    console = Console(highlight=False)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        with _single_keys(), Live(console=console, screen=True, auto_refresh=False) as live:
            yield Screen(live, console)
    finally:
        signal.signal(signal.SIGTERM, before)


def wait_for_quit(seconds: float) -> bool:
    """Wait for that time and return False; return True at once if a key to quit is pressed."""
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    descriptor, until = sys.stdin.fileno(), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([descriptor], [], [], left)
        if ready:
            typed = os.read(descriptor, _KEYS_AT_ONCE)
            if not typed or QUIT_KEYS & set(typed):
                return True  # the terminal is closed, or the user quits
    return False


def _end(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _single_keys() -> Generator[None]:
    """Let the terminal deliver each key at once, and not echo it."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
