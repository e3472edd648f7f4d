"""The metrics of identity providers' keys; a gateway without OAUTHBEARER has no values."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from .key_source import KeySources

_LABELS = ["url"]


def oauth_metrics(sources: KeySources) -> Iterator[Metric]:
    """Yield the values of all identity providers."""
    keys = GaugeMetricFamily(
        "tidegate_oauth_keys",
        "Keys of an identity provider that sign tokens; 0: no client can log in with one",
        labels=_LABELS,
    )
    failed = CounterMetricFamily(
        "tidegate_oauth_failed_key_reads",
        "Reads of an identity provider's keys that failed",
        labels=_LABELS,
    )
    for url in dict.fromkeys(each.place.url for each in sources):
        of_url = [each for each in sources if each.place.url == url]
        keys.add_metric([url], min(map(len, of_url)))
        failed.add_metric([url], sum(each.failed_reads for each in of_url))
    yield keys
    yield failed
