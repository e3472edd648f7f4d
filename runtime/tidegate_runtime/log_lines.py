"""Formats log lines: to stderr, readable on a terminal, JSON otherwise.

The logger never gets the body of a request.  Secrets of settings are hidden by their type, which
holds in nested values and in all texts (secret.py); of other objects a line shows the repr, and no
encoder looks into them.  Fields that are named like a secret are masked as well (CVE-2026-33558).
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from enum import Enum
from typing import Any, Final, cast

import msgspec
import structlog
from structlog.typing import Processor

from .secret import HIDDEN

LEVELS: Final = ("debug", "info", "warning", "error")

_SECRET = re.compile(
    r"passw|passphrase|secret|token|credential|authorization|jaas|hmac|salt|cookie|proof"
    r"|(access|account|private|stored|server|client)_?key",
    re.IGNORECASE,
)
_PLAIN = (str, int, float, type(None))


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
        hide_secrets,
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
    """Return a line of JSON."""
    return msgspec.json.encode(event).decode()


def hide_secrets(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace the values of fields that are named like a secret, and of objects by their repr."""
    for name, value in event.items():
        if name != "exc_info":
            event[name] = _shown(name, value)
    return event


def _shown(name: object, value: object) -> object:
    if _SECRET.search(str(name)):
        return HIDDEN
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        found = cast("Mapping[object, object]", value)
        return {str(each): _shown(each, inner) for each, inner in found.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_shown("", each) for each in cast("Iterable[object]", value)]
    return value if isinstance(value, _PLAIN) else repr(value)
