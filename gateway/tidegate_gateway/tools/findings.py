"""The findings of `tidegate doctor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Checked(NamedTuple):
    """One finding.  what: the fact checked.  advice: what to do; "" if there is nothing to do."""

    area: str
    what: str
    ok: bool
    advice: str = ""


Report = Callable[[Checked], None]
"""Takes each finding as soon as its check ends."""
