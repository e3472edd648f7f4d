"""Formats log lines: to stderr, readable on a terminal, JSON otherwise.

Secrets are masked at every level, by the name of their field (CVE-2026-33558); the logger never
gets the body of a request.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import msgspec
import structlog
from structlog.typing import Processor

LEVELS: Final = ("debug", "info", "warning", "error")

_SECRET = re.compile(r"password|secret|token|credential|access_?key", re.IGNORECASE)


def configure_logs(level: str, *, as_json: bool | None = None) -> None:
    """Set up logging for the process.

    Args:
      level: one of LEVELS.
      as_json: None asks whether stderr is a terminal.
    """
    if as_json is None:
        as_json = not sys.stderr.isatty()
    numbers = logging.getLevelNamesMapping()
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        mask_secrets,
        *_renderers(as_json),
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(numbers[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _renderers(as_json: bool) -> list[Processor]:
    if as_json:
        return [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_json_text),
        ]
    # Not the rich formatter: it shows local variables, and with them requests and secrets.
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]


def _json_text(event: object, **_: object) -> str:
    """Return a line of JSON; a value without a JSON form is shown as Python's repr."""
    return msgspec.json.encode(event, enc_hook=repr).decode()


def mask_secrets(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace the values of fields that are named like a secret."""
    for name in event:
        if _SECRET.search(name):
            event[name] = "[hidden]"
    return event
