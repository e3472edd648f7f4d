"""Runs with transactions, drawn apart from all else."""

from __future__ import annotations

from random import Random
from typing import Final

SHARE: Final = 0.5


def draws_transactions(seed: int) -> bool:
    """Return whether a run has transactional clients."""
    return Random(f"{seed}/transactions").random() < SHARE
