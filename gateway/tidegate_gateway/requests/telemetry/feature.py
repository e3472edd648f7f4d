"""The feature of metrics that clients push (KIP-714)."""

from __future__ import annotations

from functools import partial

from ...feature import Feature, Ground, Row
from ...security.guard import open_to_all
from ...telemetry.metrics import client_metrics
from ...telemetry.telemetry import Telemetry
from .telemetry import GetTelemetrySubscriptions, PushTelemetry


def telemetry_feature(telemetry: Telemetry) -> Feature:
    """Return the feature.  As in Kafka, its APIs need no right: a subscription chooses clients."""
    return Feature(
        "metrics of clients",
        (
            Row(GetTelemetrySubscriptions(telemetry), open_to_all),
            Row(PushTelemetry(telemetry), open_to_all),
        ),
        metrics=partial(client_metrics, telemetry),
    )


def telemetry_of(ground: Ground) -> Telemetry:
    """Make the part that keeps the metrics of clients."""
    environment = ground.environment
    return Telemetry(
        ground.coordinator.state.configs,
        ground.settings.int("telemetry.max.bytes"),
        environment.random_bytes,
        environment.pools.telemetry,
    )
