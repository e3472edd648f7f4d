"""Runs in which producer states and committed offsets expire, drawn apart from all other faults.

    expiry.offsets   the committed offsets of a group expired

A producer that repeats a batch whose state has expired writes it twice, in Kafka, too.  So all
producers of such a run time out after a while, as real ones do (delivery.timeout.ms).  Their
requests in flight must end before a state expires.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from random import Random
from typing import Final

SHARE: Final = 0.1
PRODUCERS: Final = "producer.id.expiration.ms"
OFFSETS: Final = "offsets.retention.minutes"
IDS: Final = "transactional.id.expiration.ms"
OFFSETS_EXPIRED: Final = "expiry.offsets"
RETENTION_SECONDS: Final = 60.0
_SETTINGS: Final = {PRODUCERS: "60000", OFFSETS: "1"}
_DEFAULT_RETENTION_MINUTES: Final = 7 * 24 * 60
_DEFAULT_ID_RETENTION_MS: Final = 7 * 24 * 3_600_000
_DELIVERY_SECONDS: Final = 20.0
_MINUTE_MS: Final = 60_000


def draw_expiries(seed: int, *, may_draw: bool) -> dict[str, str]:
    """Draw the settings of all gateways of a run; may_draw: clocks can be trusted."""
    rng = Random(f"{seed}/expiries")
    return dict(_SETTINGS) if rng.random() < SHARE and may_draw else {}


def delivery_seconds(settings: Mapping[str, str]) -> float:
    """Return for how long a producer repeats a batch."""
    return _DELIVERY_SECONDS if PRODUCERS in settings else inf


def retention_ms(settings: Mapping[str, str]) -> int:
    """Return for how long gateways keep offsets."""
    return int(settings.get(OFFSETS, _DEFAULT_RETENTION_MINUTES)) * _MINUTE_MS


def id_retention_ms(settings: Mapping[str, str]) -> int:
    """Return for how long gateways keep idle transactional ids."""
    return int(settings.get(IDS, _DEFAULT_ID_RETENTION_MS))
