"""The metrics of an audit log; a gateway without one has no values."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from .audit_log import AuditLog


def audit_metrics(audit: AuditLog | None) -> Iterator[Metric]:
    """Yield the counts of lost events, and of answers that did not wait for the audit log."""
    lost = CounterMetricFamily(
        "tidegate_audit_lost_events", "Events that the audit log lost, as its disk took none"
    )
    unwritten = CounterMetricFamily(
        "tidegate_audit_unwritten_answers",
        "Answers to changes that were given before the audit log could be written",
    )
    if audit is not None:
        lost.add_metric([], audit.lost)
        unwritten.add_metric([], audit.unwritten_answers)
    yield lost
    yield unwritten
