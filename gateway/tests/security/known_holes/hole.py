"""A known security hole of Kafka, its clients, or another broker, and how to plant it here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Hole:
    """name: its public name.  is_closed: fails if the hole is open.  plants: each opens it."""

    name: str
    is_closed: Callable[[], Awaitable[None]]
    plants: tuple[Plant, ...]
