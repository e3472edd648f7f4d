"""The samples of a gateway's metrics page, for tests."""

from __future__ import annotations

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tidegate_gateway.admin.metrics import gateway_metrics
from tidegate_gateway.gateway import Gateway
from tidegate_runtime.prometheus import pieces


def families(gateway: Gateway) -> dict[str, Metric]:
    """Return the families by their names, as a scraper reads them."""
    text = "".join(pieces(gateway_metrics(gateway)))
    return {each.name: each for each in text_string_to_metric_families(text)}


def samples(gateway: Gateway) -> list[Sample]:
    """Return all samples."""
    return [each for family in families(gateway).values() for each in family.samples]


def value_of(gateway: Gateway, name: str, **labels: str) -> float:
    """Return the value of a sample that is there."""
    [found] = [
        each.value
        for each in samples(gateway)
        if each.name == name and labels.items() == each.labels.items()
    ]
    return found
