"""When a link renews its token, and how long it may take (sasl.login.*).  Pure.

Names, defaults and bounds are Kafka's.  As in Kafka, both periods (`min.period`, `buffer`) are
ignored if together they are longer than the token's life.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import BadProperties

_FETCH_MS: Final = 5_000
"""Kafka waits without end where the time-outs are not set."""
_MAX_MS: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """See the names in read_token_times().

    fetch_seconds: the timeout of one try to get a token.
    """

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_seconds: float = 60.0
    buffer_seconds: float = 300.0
    fetch_seconds: float = 2 * _FETCH_MS / 1000
    first_pause_seconds: float = 0.1
    most_pause_seconds: float = 10.0


def read_token_times(texts: dict[str, str]) -> TokenTimes:
    """Read the properties, and remove them from the texts.

    Raises:
      BadProperties: one is out of its bounds.
    """
    refresh = "sasl.login.refresh"
    first_ms = _number(texts, "sasl.login.retry.backoff.ms", 100, 1, _MAX_MS)
    most_ms = _number(texts, "sasl.login.retry.backoff.max.ms", 10_000, 1, _MAX_MS)
    fetch_ms = sum(
        _number(texts, f"sasl.login.{each}.timeout.ms", _FETCH_MS, 1, _MAX_MS)
        for each in ("connect", "read")
    )
    return TokenTimes(
        _number(texts, f"{refresh}.window.factor", 0.8, 0.5, 1.0),
        _number(texts, f"{refresh}.window.jitter", 0.05, 0.0, 0.25),
        _number(texts, f"{refresh}.min.period.seconds", 60, 0, 900),
        _number(texts, f"{refresh}.buffer.seconds", 300, 0, 3600),
        fetch_ms / 1000,
        first_ms / 1000,
        max(first_ms, most_ms) / 1000,
    )


def _number(texts: dict[str, str], name: str, default: float, least: float, most: float) -> float:
    text = texts.pop(name, "")
    if not text:
        return default
    try:
        found = float(text)
    except ValueError:
        found = least - 1
    if not least <= found <= most:
        raise BadProperties(f"{name}={text} is not a number from {least:g} to {most:g}.")
    return found


def renew_after(life_seconds: float, times: TokenTimes, share: float) -> float:
    """Return after how many seconds to renew a token.

    Args:
      life_seconds: until the token expires, from now on.
      share: the share of the jitter to use, from 0 to 1.
    """
    after = life_seconds * (times.window_factor + times.window_jitter * share)
    if times.min_period_seconds + times.buffer_seconds > life_seconds:
        return after
    return max(min(after, life_seconds - times.buffer_seconds), times.min_period_seconds)
