"""A known hole of Kafka, of its clients, or of another broker, and how a gateway would have it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Hole:
    """name: as others know it.  is_closed: fails if a gateway has it.  plants: each makes it so."""

    name: str
    is_closed: Callable[[], Awaitable[None]]
    plants: tuple[Plant, ...]
