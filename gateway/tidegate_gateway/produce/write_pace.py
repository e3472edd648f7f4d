"""Explains the latency of small writes under the request budget.  New users of S3 notice it."""

from __future__ import annotations

from tidegate_storage.stores.load import requests_cost_money

from ..settings.broker_settings import BrokerSettings


def write_pace(settings: BrokerSettings) -> str:
    """Return a sentence about small writes once the budget is used up; "" if they need no PUT.

    They travel in the metadata log, or there is no budget.  A log behind HTTP may take none.
    """
    budget = settings.float("wal.put.budget.per.second")
    may_be_inlined = not settings.secret("metadata.log").reveal().startswith(("http:", "https:"))
    if not budget or (may_be_inlined and settings.int("wal.inline.max.bytes")):
        return ""
    if not requests_cost_money(settings.secret("object.store").reveal()):
        return ""
    wait_ms = min(1000 / budget, settings.int("wal.linger.ms"))
    return (
        f"Records sent one by one for more than a minute take some {wait_ms:.0f} ms each: small"
        f" objects are limited to {budget:g} PUTs a second (wal.put.budget.per.second, 0 for no"
        " limit), unless they travel in the metadata log (wal.inline.max.bytes)."
    )
