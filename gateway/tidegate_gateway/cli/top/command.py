"""Runs `tidegate top`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate_runtime.settings_texts import SettingsError

from ...cost.bill import Prices, prices_of
from ..admin_reader import Access, places
from ..output.table import printable
from .frames import FrameReader
from .rates import Row, decide
from .screen import wait_for_quit, whole_screen
from .text import text_of

NOT_TOLD: Final = 2
ROWS: Final = 40
"""Lines of a frame that no terminal bounds."""


@dataclass(frozen=True, slots=True)
class TopOptions:
    """The options as typed.  prices: None for the prices of this release."""

    interval_seconds: float
    is_once: bool
    as_json: bool
    prices: Path | None


def run_top(admins: Sequence[str], access: Access, options: TopOptions) -> int:
    """Show frames until the user quits, or print one; return the exit code."""
    try:
        prices = prices_of(options.prices)
        reader = FrameReader(places(admins), access)
    except SettingsError as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return NOT_TOLD
    if options.is_once or options.as_json or not sys.stdout.isatty():
        return _print_one(reader, prices, options)
    with suppress(KeyboardInterrupt):  # Ctrl+C ends the command
        _show(reader, prices, options)
    return 0


def _print_one(reader: FrameReader, prices: Prices, options: TopOptions) -> int:
    """Print one frame; its rates are over the interval before it."""
    before = reader.read()
    if all(each.problem for each in before.gateways):
        for each in before.gateways:
            print(f"tidegate: {printable(each.problem)}", file=sys.stderr)
        return NOT_TOLD
    time.sleep(options.interval_seconds)
    report = decide(before, reader.read(), prices)
    print(json.dumps(report) if options.as_json else "\n".join(text_of(report, height=ROWS)))
    return 0


def _show(reader: FrameReader, prices: Prices, options: TopOptions) -> None:
    before = reader.read()
    with whole_screen() as screen:
        report: Row = decide(before, before, prices)
        while True:
            columns, height = screen.size
            screen.draw(text_of(report, height=height, columns=columns))
            if wait_for_quit(options.interval_seconds):
                return
            now = reader.read()
            report, before = decide(before, now, prices), now
