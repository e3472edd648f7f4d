"""Bounds that the command line names; it loads nothing else of the simulator."""

from __future__ import annotations

from typing import Final

MAX_ZONES: Final = 9
