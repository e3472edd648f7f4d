"""Events of a restored or repaired log; see backup/restore.py."""

from __future__ import annotations

from typing import Annotated

import msgspec

from .cluster import Event
from .fields import UInt32, Within


class TimelineOpened(Event, frozen=True, tag=8):
    """The log was restored or repaired: every incarnation so far ended, and salvage begins.

    first_incarnation, first_producer_id: above all that the lost end of the log can have given out.
    restore_id: distinguishes restores.
    """

    timeline: Annotated[int, Within(range(1, 1 << 31))]  # because leader epochs rise with it
    first_incarnation: UInt32
    first_producer_id: int
    restore_id: str


class FormerLife(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An incarnation whose registration was lost, and where its objects lie."""

    incarnation: int
    node_id: int
    zone: str
    timeline: int


class FormerLivesFound(Event, frozen=True, tag=9):
    """Objects of incarnations that the restored state does not know may be committed."""

    restore_id: str
    lives: tuple[FormerLife, ...]


class SalvageEnded(Event, frozen=True, tag=14):
    """Nothing more of former timelines will be committed; gateways may begin.

    first_producer_id: above every producer id that was met.
    """

    restore_id: str
    first_producer_id: int
