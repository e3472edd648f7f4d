"""The least level of a log line, by logger; it may change while a process runs.

The names of levels are Kafka's.  A logger without a level has that of the root, as in Log4j.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ROOT: Final = "root"
LEVELS: Final[Mapping[str, int]] = {
    "TRACE": 5,
    "DEBUG": 10,
    "INFO": 20,
    "WARN": 30,
    "ERROR": 40,
    "FATAL": 50,
}
"""Kafka's names, and Python's numbers."""


class LogLevels:
    """See the module's head.  root: the level of loggers that have none."""

    def __init__(self, root: str = "INFO") -> None:
        self._own = {ROOT: root}

    def of(self, logger: str) -> str:
        """Return a logger's level."""
        return self._own.get(logger) or self._own[ROOT]

    def set(self, logger: str, level: str) -> None:
        """Give a logger, or the root, its own level."""
        self._own[logger] = level

    def unset(self, logger: str) -> None:
        """Give a logger the root's level; the root keeps its own."""
        if logger != ROOT:
            self._own.pop(logger, None)

    def shows(self, logger: str, number: int) -> bool:
        """Return whether lines of a level, by Python's number, are written."""
        return number >= LEVELS[self.of(logger)]

    def own(self) -> dict[str, str]:
        """Return the loggers that have their own level, and the root."""
        return dict(self._own)
