"""The form of a row of event_rows.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...events.cluster import Event
from ..changes import Tables
from ..folds.parts import FoldParts
from ..trial.events import TrialParts

_Step: TypeAlias = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Row:
    """A type of event.

    fold: finds the function that changes the state, in these tables at most; it decides nothing.
    check: finds the function that checks whether the event can be folded; None: it always can.
    """

    kind: type[Event]
    fold: Callable[[FoldParts], _Step]
    tables: Tables
    check: Callable[[TrialParts], _Step] | None = None
