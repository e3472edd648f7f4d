"""The figures of docs/performance.md that plans and advice use.  A test compares them with it.

The rows have the names of the first cells there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

INGEST_MEASURED: Final = "2026-11-21"
MERGE_MEASURED: Final = "2026-11-22"


class Batches(Enum):
    """The batches that producers send: the rows of the bench."""

    LARGE = "1MB"
    MIDDLE = "16KiB"
    JAVA = "java"


@dataclass(frozen=True, slots=True)
class Ingest:
    """The cost of writing 1 KiB records: CPU for each MB of payload (10^6 bytes), PUTs a GiB."""

    row: str
    cpu_ms_per_mb: float
    puts_per_gib: float


@dataclass(frozen=True, slots=True)
class Reading:
    """The CPU for each MB of payload that is read."""

    row: str
    cpu_ms_per_mb: float


@dataclass(frozen=True, slots=True)
class Merge:
    """The cost of merging: MiB/s of one core, and requests a GiB."""

    row: str
    mib_per_core_second: float
    gets_per_gib: float
    puts_per_gib: float


FEW_PARTITIONS: Final = 16
MANY_PARTITIONS: Final = 1000
BATCHES_OF_1_MB: Final = Ingest("1 MB, 16", 1.18, 146)
BATCHES_OF_1_MB_MANY: Final = Ingest("1 MB, 1,000", 1.34, 148)
BATCHES_OF_16_KIB: Final = Ingest("16 KiB, 16", 2.31, 215)
BATCHES_OF_16_KIB_MANY: Final = Ingest("16 KiB, 1,000", 3.30, 238)
JAVA_DEFAULTS: Final = Ingest("Java defaults", 8.23, 1730)
TAIL_READERS: Final = Reading("tail, 50 readers, paced: answers of 100 KB", 2.07)
MERGE: Final = Merge("in one process", 234, 1160, 54)
INGEST: Final = (
    BATCHES_OF_1_MB,
    BATCHES_OF_1_MB_MANY,
    BATCHES_OF_16_KIB,
    BATCHES_OF_16_KIB_MANY,
    JAVA_DEFAULTS,
)
