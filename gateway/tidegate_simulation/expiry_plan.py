"""Runs in which states of producers and offsets of groups expire, drawn apart from all else.

A producer that repeats a batch whose state has expired writes it twice, in Kafka, too.  So all
producers of such a run give up after a while, as real ones do (delivery.timeout.ms); what is under
way then must be over before a state expires.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from random import Random
from typing import Final

SHARE: Final = 0.1
PRODUCERS: Final = "producer.id.expiration.ms"
OFFSETS: Final = "offsets.retention.minutes"
_EXPIRATION_MS: Final = "60000"
_DELIVERY_SECONDS: Final = 20.0
_MINUTE_MS: Final = 60_000


def draw_expiries(seed: int, *, may_draw: bool) -> dict[str, str]:
    """Return settings of all gateways of a run; may_draw: clocks can be trusted."""
    rng = Random(f"{seed}/expiries")
    if rng.random() >= SHARE or not may_draw:
        return {}
    return {PRODUCERS: _EXPIRATION_MS, OFFSETS: "1"}


def delivery_seconds(settings: Mapping[str, str]) -> float:
    """Return for how long a producer repeats a batch."""
    return _DELIVERY_SECONDS if PRODUCERS in settings else inf


def offsets_expire_ms(settings: Mapping[str, str]) -> int | None:
    """Return for how long offsets are kept at least; None for ever."""
    minutes = settings.get(OFFSETS)
    return int(minutes) * _MINUTE_MS if minutes is not None else None
