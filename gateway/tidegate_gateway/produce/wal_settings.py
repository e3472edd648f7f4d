"""The settings of the WAL writer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WalSettings:
    """Sizes in bytes, times in seconds.  put_budget_per_second 0: requests cost nothing.

    max_in_flight_bytes: of objects that are sealed and not yet answered; one is always admitted.
    walks_records: the records of each batch of a client were walked, and its header says what the
      walk found.
    """

    max_object_bytes: int = 8 << 20
    put_budget_per_second: float = 8.0
    linger_seconds: float = 0.25
    upload_slots: int = 8
    put_timeout_seconds: float = 30.0
    max_in_flight_bytes: int = 256 << 20
    walks_records: bool = True
