"""Runs with transactions, drawn apart from all else.

Their clients are in transactions/cast.py.  In some runs idle transactional ids expire soon, and in
some the epochs of a new id begin high, so that the id soon needs another producer id.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final
from unittest.mock import patch

from tidegate_coordination.events.fields import LAST_EPOCH
from tidegate_coordination.rules.transactions import initialising

from .expiry_plan import IDS

SHARE: Final = 0.5
_FOCUS_SHARE: Final = 0.5
_DESERTER_SHARE: Final = 0.35
_ABORTER_SHARE: Final = 0.25
_ETL_SHARE: Final = 0.35
_HIGH_SHARE: Final = 0.25
_EXPIRY_SHARE: Final = 0.15
_MOST_LEFT: Final = 2
_INTERVALS: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}
_ID_EXPIRY_MS: Final = "4000"


def draws_transactions(seed: int) -> bool:
    """Return whether a run has transactional clients."""
    return Random(f"{seed}/transactions").random() < SHARE


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """settings: of all gateways.  first_epoch: of a new id.  has_...: see cast.py.

    is_focused: few other clients, so that most operations are transactions.
    """

    is_on: bool = False
    is_focused: bool = False
    settings: dict[str, str] = field(default_factory=dict[str, str])
    first_epoch: int = initialising.FIRST_EPOCH
    has_deserters: bool = False
    has_aborter: bool = False
    has_etl: bool = False

    @contextmanager
    def hold(self) -> Generator[None]:
        """Let epochs begin high inside the context."""
        with patch.object(initialising, "FIRST_EPOCH", self.first_epoch):
            yield


def draw_transaction_plan(seed: int, *, may_expire: bool) -> TransactionPlan:
    """Draw the transactions of a run; may_expire: clocks can be trusted."""
    if not draws_transactions(seed):
        return TransactionPlan()
    rng = Random(f"{seed}/transaction plan")
    settings = dict(_INTERVALS)
    begins_high, left = rng.random() < _HIGH_SHARE, rng.randint(0, _MOST_LEFT)
    if rng.random() < _EXPIRY_SHARE and may_expire:
        settings[IDS] = _ID_EXPIRY_MS
    return TransactionPlan(
        True,
        rng.random() < _FOCUS_SHARE,
        settings,
        first_epoch=LAST_EPOCH - left if begins_high else initialising.FIRST_EPOCH,
        has_deserters=rng.random() < _DESERTER_SHARE,
        has_aborter=rng.random() < _ABORTER_SHARE,
        # Not with IDS: the client's id must not expire while it reads all inputs at the end.
        has_etl=rng.random() < _ETL_SHARE and IDS not in settings,
    )
