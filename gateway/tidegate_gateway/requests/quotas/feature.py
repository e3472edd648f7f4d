"""The feature of client quotas (KIP-546)."""

from __future__ import annotations

from functools import partial

from ...feature import Feature, Ground, Row, Task, always
from ...parts.quotas import QuotaParts
from ...quotas.metrics import quota_metrics
from .acts import quotas_altered
from .client_quotas import AlterClientQuotasHandler, DescribeClientQuotasHandler
from .guards import guard_alter_client_quotas, guard_describe_client_quotas


def quotas_feature(ground: Ground, limits: QuotaParts) -> Feature:
    """Return the feature."""
    coordinator, exchange = ground.coordinator, limits.share_exchange
    return Feature(
        "client quotas",
        (
            Row(
                DescribeClientQuotasHandler(coordinator),
                guard_describe_client_quotas,
                lists=True,
            ),
            Row(
                AlterClientQuotasHandler(coordinator),
                guard_alter_client_quotas,
                act=quotas_altered,
                is_audited=True,
                proposes=always,
            ),
        ),
        (Task("share quotas", exchange.run),) if exchange is not None else (),
        metrics=partial(quota_metrics, limits.quotas, exchange, limits.connection_rates),
    )
