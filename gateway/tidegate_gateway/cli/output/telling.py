"""Prints the error of a command that ends."""

from __future__ import annotations

import sys

from ...refusals_to_start import sentence_of


def was_told(error: BaseException) -> bool:
    """Print an error that a person can fix as one sentence; return False for a bug."""
    sentence = sentence_of(error)
    if sentence is not None:
        print(f"tidegate: {sentence}", file=sys.stderr)
    return sentence is not None
