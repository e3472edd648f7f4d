"""The settings of the WAL writer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WalSettings:
    """Sizes in bytes, times in seconds.  put_budget_per_second: 0 for no budget.

    max_in_flight_bytes: of sealed objects without outcomes; one object is always admitted.
    walks_records: the records of each client's batch were walked, and its header agrees with them.
    """

    max_object_bytes: int = 8 << 20
    put_budget_per_second: float = 8.0
    linger_seconds: float = 0.25
    upload_slots: int = 8
    put_timeout_seconds: float = 30.0
    max_in_flight_bytes: int = 256 << 20
    walks_records: bool = True
