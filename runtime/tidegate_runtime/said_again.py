"""Trouble that lasts: told when it begins, when it changes, and now and then in between."""

from __future__ import annotations

import re
from math import inf
from typing import Final

AGAIN_SECONDS: Final = 30.0

_NUMBERS: Final = re.compile(r"\d+(\.\d+)?(ns|µs|ms|s)?")


class SaidAgain:
    """Tells which of the same warnings, made at each try, are worth a line.

    Numbers, with units of time, are no change: many texts say how long a try took.
    """

    def __init__(self) -> None:
        self._text = ""
        self._at = -inf

    def is_due(self, text: str, now: float) -> bool:
        """Tell whether to say it now; it is taken for said then.

        Args:
          now: seconds on a clock that never goes back.
        """
        text = _NUMBERS.sub("#", text)
        if text == self._text and now - self._at < AGAIN_SECONDS:
            return False
        self._text, self._at = text, now
        return True
