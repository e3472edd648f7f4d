"""The metrics of upkeep: of objects, snapshots and backups."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from tidegate_runtime.prometheus import counter, gauge

from .backup_schedule import BackupSchedule
from .housekeeper import Housekeeper


def housekeeping_metrics(housekeeper: Housekeeper) -> Iterator[Metric]:
    """Yield the figures of the housekeeper."""
    yield counter(
        "tidegate_failed_snapshots",
        "Snapshots of the metadata log that could not be read back",
        housekeeper.failed_snapshots,
    )
    yield counter(
        "tidegate_collected_objects", "Objects that were deleted", housekeeper.collected_objects
    )


def backup_metrics(backup: BackupSchedule) -> Iterator[Metric]:
    """Yield the position and the time of the last backup."""
    status = backup.status
    yield gauge("tidegate_backup_position", "Position of the last backup", status.position)
    yield gauge(
        "tidegate_backup_time_seconds",
        "Time of the log's last backup, since 1970; 0: none since the gateway's start",
        status.time_ms / 1000,
    )
