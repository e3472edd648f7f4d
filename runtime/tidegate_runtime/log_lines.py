"""Formats log lines: to stderr, readable on a terminal, JSON otherwise.

The logger never gets the body of a request.  Secrets of settings are hidden by their type, even in
nested values and in all texts (secret.py).  A line shows other objects by their repr, and no
encoder looks into them.  Fields with the name of a secret are masked as well (CVE-2026-33558).
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from datetime import UTC, datetime
from enum import Enum
from time import monotonic
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
import structlog
from structlog.typing import Processor

from .last_lines import LastLines
from .line_rates import LINES, UNLIMITED, LineRates
from .log_levels import ROOT, LogLevels
from .output import DROPPED_TEXT, QueuedText
from .secret import HIDDEN

LEVELS: Final = ("debug", "info", "warning", "error")

PROCESS_LEVELS: Final = LogLevels()
"""The levels of this process's log lines."""
PROCESS_LINES: Final = LastLines()
"""This process's newest log lines."""
PROCESS_RATES: Final = LineRates()
"""The rates of this process's log lines."""
NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_NAMES: Final = {
    "debug": "DEBUG",
    "info": "INFO",
    "warning": "WARN",
    "error": "ERROR",
    "critical": "FATAL",
}

_SECRET = re.compile(
    r"passw|passphrase|secret|token|credential|authorization|jaas|hmac|salt|cookie|proof"
    r"|(access|account|private|stored|server|client)_?key",
    re.IGNORECASE,
)
_NUMBERS: Final = logging.getLevelNamesMapping()
_PLAIN = (str, int, float, type(None))


def configure_logs(
    level: str, *, as_json: bool | None = None, always: Mapping[str, object] = NOTHING
) -> None:
    """Set up logging for the process.

    Args:
      level: one of LEVELS, or "critical"; PROCESS_LEVELS may change it later.
      as_json: None asks whether stderr is a terminal.
      always: fields of all lines.
    """
    if as_json is None:
        as_json = not sys.stderr.isatty()
    PROCESS_LEVELS.set(ROOT, _NAMES[level])
    processors: list[Processor] = [
        _drop_below_level,
        _drop_above_rate,
        lambda _logger, _method, event: {**event, **always},
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
        _keep,
        *_renderers(as_json),
    ]
    if as_json and isinstance(sys.stderr, QueuedText):
        sys.stderr.output.tell_dropped_by(lambda count: _dropped_line(count, always))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=_NamedLogger,
        cache_logger_on_first_use=False,  # lines are rare, and tests configure logging again
    )


def _dropped_line(count: int, always: Mapping[str, object]) -> bytes:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    event = {"event": DROPPED_TEXT, "count": count, **always, "level": "warning"}
    return msgspec.json.encode({**event, "timestamp": now}) + b"\n"


class _NamedLogger(structlog.WriteLogger):
    """Writes lines to stderr, each at once; keeps what get_logger() was called with.

    lines_a_minute: the limit for each kind of line; see line_rates.py.
    """

    def __init__(self, name: str = "", lines_a_minute: float = LINES) -> None:
        super().__init__(sys.stderr)
        self.name = name
        self.lines_a_minute = lines_a_minute


def _drop_below_level(
    logger: _NamedLogger, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    if not PROCESS_LEVELS.shows(logger.name, _NUMBERS[method.upper()]):
        raise structlog.DropEvent
    return event


def _drop_above_rate(
    logger: _NamedLogger, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Leave lines out if too many of a kind come, except debug lines, which were asked for."""
    most = logger.lines_a_minute
    if most == UNLIMITED or method == "debug":
        return event
    left_out = PROCESS_RATES.take(logger.name, str(event["event"]), most, monotonic())
    if left_out is None:
        raise structlog.DropEvent
    if left_out:
        event["left_out"] = left_out
    return event


def _keep(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    copied: MutableMapping[str, Any] = dict(event)
    whole = structlog.processors.format_exc_info(logger, method, copied)
    PROCESS_LINES.add(_json_text(whole).encode())
    return event


def _renderers(as_json: bool) -> list[Processor]:
    if as_json:
        return [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_json_text),
        ]
    # Not the rich formatter, which shows local variables, and with them requests and secrets.
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
