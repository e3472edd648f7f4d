"""Lasting trouble: logged when it begins, when it changes, and at intervals."""

from __future__ import annotations

import re
from math import inf
from typing import Final

AGAIN_SECONDS: Final = 30.0

_NUMBERS: Final = re.compile(r"\d+(\.\d+)?(ns|µs|ms|s)?")


class SaidAgain:
    """Decides which of the same warnings, one for each try, are worth a line.

    A text that differs only in numbers and units of time is unchanged: many texts hold the duration
    of a try.
    """

    def __init__(self) -> None:
        self._text = ""
        self._at = -inf

    def is_due(self, text: str, now: float) -> bool:
        """Return whether to log the text now; if so, it counts as logged.

        Args:
          now: seconds on a monotonic clock.
        """
        text = _NUMBERS.sub("#", text)
        if text == self._text and now - self._at < AGAIN_SECONDS:
            return False
        self._text, self._at = text, now
        return True
