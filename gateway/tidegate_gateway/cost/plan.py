"""The cores, requests, storage and money that a load will need.  Pure.

CPU and requests come from the bench (figures.py), which ran on one machine.  A plan is only an
estimate.  It rounds up, and leaves out cold reads, failures and other kinds of traffic.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log
from typing import Final

from .bill import GB, MONTH_HOURS, Prices
from .figures import (
    BATCHES_OF_1_MB,
    BATCHES_OF_1_MB_MANY,
    BATCHES_OF_16_KIB,
    BATCHES_OF_16_KIB_MANY,
    FEW_PARTITIONS,
    JAVA_DEFAULTS,
    MANY_PARTITIONS,
    MERGE,
    TAIL_READERS,
    Batches,
    Ingest,
)

MB: Final = 10**6
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_MONTH_SECONDS: Final = MONTH_HOURS * 3600
USED_SHARE: Final = 0.6
"""The share of a core that a gateway should use, so that latency stays low and a peak fits."""
BUDGET: Final = 8.0
"""PUTs of small objects a second and gateway: the default of wal.put.budget.per.second."""
INLINED_BYTES_PER_SECOND: Final = 4 << 20
"""Of small writes, that PostgreSQL or SQLite take from all gateways."""
_MOVES_PER_GIB: Final = 256
_MOVE_SECONDS: Final = 10.0


_FIGURES: Final = {
    Batches.LARGE: (BATCHES_OF_1_MB, BATCHES_OF_1_MB_MANY),
    Batches.MIDDLE: (BATCHES_OF_16_KIB, BATCHES_OF_16_KIB_MANY),
    Batches.JAVA: (JAVA_DEFAULTS, JAVA_DEFAULTS),
}


@dataclass(frozen=True, slots=True)
class Load:
    """write_mb, read_mb: MB/s of all clients on the wire (1 MB = 10^6 bytes)."""

    write_mb: float
    read_mb: float
    partitions: int
    retention_days: float
    zones: int = 3
    batches: Batches = Batches.MIDDLE


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of plan().

    busy_cores: the cores that gateways use at this load.  gateways: processes with one core each.

    puts, gets: requests a second, including the pipeline's.  stored_gb: once old records are
    deleted.  money: of a month, by cause.  crossing: a month's money if clients ignore zones.
    """

    load: Load
    busy_cores: float
    gateways: int
    pipeline_cores: float
    puts: float
    gets: float
    stored_gb: float
    money: dict[str, float]
    crossing: float


def plan(load: Load, prices: Prices) -> Plan:
    """Return the gateways, requests and costs that a load needs."""
    ingest = ingest_of(load.batches, load.partitions)
    busy = (load.write_mb * ingest.cpu_ms_per_mb + load.read_mb * TAIL_READERS.cpu_ms_per_mb) / 1000
    gateways = _gateways(busy, load.zones)
    gib = load.write_mb * MB / _GIB
    puts = _puts_of_records(load, gib, ingest, gateways)
    # A gateway has the records of its own objects in memory.  Each other zone reads each object
    # once.
    gets = puts * (load.zones - 1) if load.read_mb else 0.0
    merge_puts, merge_gets = gib * MERGE.puts_per_gib, gib * MERGE.gets_per_gib
    pipeline = load.write_mb * MB / _MIB / MERGE.mib_per_core_second
    stored_gb = load.write_mb * MB * load.retention_days * 86_400 / GB
    elsewhere = (load.zones - 1) / load.zones
    log_bytes = _bytes_of_log(load, gateways, elsewhere)
    crossed_bytes = (load.write_mb + load.read_mb) * MB * elsewhere * _MONTH_SECONDS
    asked = {"put all": puts + merge_puts, "get all": gets + merge_gets}
    a_month = {kind: round(count * _MONTH_SECONDS) for kind, count in asked.items()}
    return Plan(
        load,
        busy,
        gateways,
        pipeline,
        asked["put all"],
        asked["get all"],
        stored_gb,
        {
            "put requests": prices.of_requests({"put all": a_month["put all"]}),
            "get requests": prices.of_requests({"get all": a_month["get all"]}),
            "storage": stored_gb * prices.gigabytes.month,
            **(
                {"small writes in the log, across zones": prices.of_crossed(round(log_bytes))}
                if log_bytes
                else {}
            ),
            "cores": (gateways + ceil(pipeline)) * prices.machines.core_month,
        },
        prices.of_crossed(round(crossed_bytes)),
    )


def _puts_of_records(load: Load, gib: float, ingest: Ingest, gateways: int) -> float:
    """Return the PUTs of WAL objects a second."""
    if not load.write_mb:
        return 0.0
    if _is_inlined(load):
        # The records travel in the metadata log.  Each gateway stores many of them in one object.
        return max(gib * _MOVES_PER_GIB, gateways / _MOVE_SECONDS)
    # At a low load each gateway stores as many small objects as its budget allows.
    return max(gib * ingest.puts_per_gib, BUDGET * gateways)


def _is_inlined(load: Load) -> bool:
    is_small = load.write_mb * MB <= INLINED_BYTES_PER_SECOND
    return is_small and load.batches is not Batches.LARGE


def _bytes_of_log(load: Load, gateways: int, elsewhere: float) -> float:
    """Return the bytes of records that a month's log entries carry across zones.

    They go to the database, which is in one zone, and from there to every gateway.
    """
    if not _is_inlined(load):
        return 0.0
    return load.write_mb * MB * (1 + gateways) * elsewhere * _MONTH_SECONDS


def ingest_of(batches: Batches, partitions: int) -> Ingest:
    """Return the figures for a number of partitions, interpolated between those of the bench."""
    few, many = _FIGURES[batches]
    inside = min(max(partitions, FEW_PARTITIONS), MANY_PARTITIONS)
    part = log(inside / FEW_PARTITIONS) / log(MANY_PARTITIONS / FEW_PARTITIONS)
    return Ingest(
        f"{few.row} to {many.row}",
        few.cpu_ms_per_mb + part * (many.cpu_ms_per_mb - few.cpu_ms_per_mb),
        few.puts_per_gib + part * (many.puts_per_gib - few.puts_per_gib),
    )


def _gateways(busy_cores: float, zones: int) -> int:
    """Return how many gateways carry the load even without one zone; equally many in each zone."""
    left = max(zones - 1, 1)
    return zones * max(ceil(busy_cores / USED_SHARE / left), 1)
