"""What `tidegate doctor` finds, one thing at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Checked(NamedTuple):
    """One finding.  advice: what to do; "" when nothing is wrong."""

    area: str
    what: str
    ok: bool
    advice: str = ""


Report = Callable[[Checked], None]
"""Called with each finding as soon as it is known."""
