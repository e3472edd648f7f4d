"""Explains the latency of small writes under the request budget.  New users of S3 notice it."""

from __future__ import annotations

from tidegate_storage.stores.load import requests_cost_money

from ..settings.broker_settings import BrokerSettings


def write_pace(settings: BrokerSettings) -> str:
    """Return a sentence about small writes once the budget is used up; "" without a budget."""
    budget = settings.float("wal.put.budget.per.second")
    if not budget or not requests_cost_money(settings.secret("object.store").reveal()):
        return ""
    wait_ms = min(1000 / budget, settings.int("wal.linger.ms"))
    return (
        f"Records sent one by one for more than a minute take some {wait_ms:.0f} ms each: small"
        f" objects are limited to {budget:g} PUTs a second (wal.put.budget.per.second, 0 for no"
        " limit)."
    )
