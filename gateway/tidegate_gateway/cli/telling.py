"""How commands that end tell what went wrong."""

from __future__ import annotations

import sys

from ..refusals_to_start import sentence_of


def was_told(error: BaseException) -> bool:
    """Tell what a person can mend, in one sentence; return False for a bug."""
    sentence = sentence_of(error)
    if sentence is not None:
        print(f"tidegate: {sentence}", file=sys.stderr)
    return sentence is not None
