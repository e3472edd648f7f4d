"""Which tables of the state an event may change, so that a listener is called only for its tables.

A constant for each attribute of StateTables that is a table.  The row of an event (event_rows.py)
names the tables that the event changes.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Tables: TypeAlias = int
"""Some of the constants below, joined by `|`."""

EVERY_ENTRY: Final = 1 << 0
"""The log's position and time, and the clocks of gateways: every entry changes them."""
CLUSTER: Final = 1 << 1
"""The cluster's id, timeline and metadata.version."""
TIMELINES: Final = 1 << 2
GATEWAYS: Final = 1 << 3
"""Without their clocks."""
CLAIMS: Final = 1 << 4
TOPICS: Final = 1 << 5
LINKS: Final = 1 << 6
SWITCHES: Final = 1 << 7
PARTITIONS: Final = 1 << 8
"""Their rows, and whether they are mirrored: StateTables.touched names them."""
OBJECTS: Final = 1 << 9
PRODUCER_IDS: Final = 1 << 10
GROUPS: Final = 1 << 11
TRANSACTIONS: Final = 1 << 12
OFFSETS_TOPIC: Final = 1 << 13
LINK_GROUPS: Final = 1 << 14
CONFIGS: Final = 1 << 15
NAME_CHANGES: Final = 1 << 16
PIPELINE_REPORTS: Final = 1 << 17
PROPOSALS: Final = 1 << 18
LOG_MOVES: Final = 1 << 19
STATIC_SETTINGS: Final = 1 << 20
ACLS: Final = 1 << 21
SCRAM: Final = 1 << 22
QUOTAS: Final = 1 << 23
TOKENS: Final = 1 << 24
