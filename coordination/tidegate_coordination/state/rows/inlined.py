"""Rows of the events of small writes; see event_rows.py."""

from __future__ import annotations

from typing import Final

from ...events import inlined as iev
from ..changes import OBJECTS, PARTITIONS
from .row import Row

INLINED_ROWS: Final = (
    Row(iev.BatchesInlined, lambda f: f.inlined.fold_inlined, OBJECTS, lambda t: t.inlined.inlined),
    Row(
        iev.InlineMoved,
        lambda f: f.inlined.fold_moved,
        PARTITIONS | OBJECTS,
        lambda t: t.inlined.moved,
    ),
)
