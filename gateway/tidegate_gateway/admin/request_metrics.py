"""The metrics of requests: how many, which errors, how long, and how busy the event loop is.

Times are shown twice: as histograms since the gateway's start, and as quantiles of the last minutes
in ms, under Kafka's names.  Kafka's stages have these meanings here:

    requestqueuetimems  Produce: until its object is sealed.  Others: until the handler begins
    localtimems         Produce: to make the object's bytes.  Fetch: all but the wait
    remotetimems        Produce: to store and commit the object.  Fetch: the wait for records
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from tidegate_protocol.apis import APIS, ApiKey
from tidegate_runtime.histograms import Histogram, added, quantiles
from tidegate_runtime.prometheus import Family, Series, gauge, histogram, label, line

from ..counting.error_counts import ErrorCounts, error_name
from ..counting.slow_requests import SlowRequests
from ..fetch.lending.object_lender import LenderCounters
from ..gateway import Gateway
from ..gateway_counters import GatewayCounters
from ..produce.produce_times import ProduceTimes

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The quantiles of Kafka's histograms, with the labels that jmx_exporter gives them."""
_QUANTILE_LABELS: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
FETCH_CONSUMER: Final = "FetchConsumer"


def names_of(api_key: int) -> Sequence[str]:
    """Return the names of an API in labels; none for an unknown API key."""
    facts = APIS.get(api_key)
    if facts is None:
        return ()
    # Kafka also shows fetches of consumers as FetchConsumer, and dashboards read this name.
    return (facts.name, FETCH_CONSUMER) if api_key == ApiKey.FETCH else (facts.name,)


def request_metrics(counters: GatewayCounters) -> Iterator[Metric]:
    """Yield the counts of requests."""
    requests = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Requests read", labels=["request"]
    )
    for api_key, count in sorted(counters.requests.items()):
        for name in names_of(api_key):
            requests.add_metric([name], count)
    yield requests
    yield from _errors(counters.errors)


def slow_metric(slow: SlowRequests) -> Metric:
    """Return the counts of slow requests."""
    family = CounterMetricFamily(
        "tidegate_slow_requests",
        "Requests that took slow.request.log.ms or longer",
        labels=["request"],
    )
    for api_key, count in sorted(slow.counts.items()):
        family.add_metric([APIS[api_key].name], count)
    return family


def _errors(errors: ErrorCounts) -> Iterator[Metric]:
    family = CounterMetricFamily(
        "kafka_network_requestmetrics_errors",
        "Error codes in answers",
        labels=["request", "error"],
    )
    for (api_key, code), count in sorted(errors.by_code.items()):
        for name in names_of(api_key):
            family.add_metric([name, error_name(code)], count)
    yield family
    unanswered = CounterMetricFamily(
        "tidegate_unanswered_requests",
        "Requests whose connection was closed, since their outcome was unknown",
        labels=["request"],
    )
    for api_key, count in sorted(errors.unanswered.items()):
        unanswered.add_metric([APIS[api_key].name], count)
    yield unanswered


def time_metrics(gateway: Gateway, now: float) -> Iterator[Family]:
    """Yield the times of requests and their stages.  now: seconds on Trio's clock."""
    produce, counters = gateway.writes.writer.counters.times, gateway.counters
    yield from _produce(produce)
    fetches = counters.times.get(ApiKey.FETCH)
    total = fetches.total if fetches is not None else Histogram()
    yield histogram("tidegate_fetch_seconds", "Time of Fetch requests", total)
    wait = counters.fetches.wait
    yield histogram("tidegate_fetch_wait_seconds", "Part of it: waits for records", wait)
    sends = gateway.reads.reply_memory.send_times
    yield histogram("tidegate_reply_send_seconds", "Replies that did not leave at once", sends)
    yield from _outside(gateway)
    yield from _quantiles(counters, produce, now)


def _quantiles(counters: GatewayCounters, produce: ProduceTimes, now: float) -> Iterator[Series]:
    stages: dict[str, dict[int, Histogram]] = {
        "totaltimems": {key: each.total for key, each in counters.times.items()},
        "requestqueuetimems": {key: each.queue for key, each in counters.times.items()},
        "localtimems": {ApiKey.FETCH: counters.fetches.local},
        "remotetimems": {ApiKey.FETCH: counters.fetches.wait},
    }
    of_produce = (produce.total, produce.queue, produce.seal, produce.remote)
    for (stage, histograms), values in zip(stages.items(), of_produce, strict=True):
        histograms[ApiKey.PRODUCE] = values
        name = f"kafka_network_requestmetrics_{stage}"
        lines = _lines(name, histograms, now)
        yield Series(name, "Time of requests in the last minutes, in ms", "gauge", lines)


def _lines(name: str, histograms: dict[int, Histogram], now: float) -> Iterator[str]:
    for api_key, values in sorted(histograms.items()):
        found = quantiles(values.recent(now), QUANTILES)
        for request in names_of(api_key):
            labels = label("request", request)
            for seconds, text in zip(found, _QUANTILE_LABELS, strict=False):
                value = round(seconds * 1000, 3)
                yield line(name, f"{label('quantile', text)},{labels}", value)


def _produce(times: ProduceTimes) -> Iterator[Series]:
    for name, help_text, values in (
        ("produce", "Time of Produce requests, to their answers", times.total),
        ("produce_queue", "Of objects: from the first batch until sealed", times.queue),
        ("produce_seal", "Of objects: to make their bytes", times.seal),
        ("produce_upload", "Of objects: to store them, with repeats", times.upload),
        ("produce_commit", "Of stored objects: until their outcome is known", times.commit),
        ("store_put", "PUTs of the object store", times.puts),
    ):
        yield histogram(f"tidegate_{name}_seconds", help_text, values)


def _outside(gateway: Gateway) -> Iterator[Series]:
    """Yield the times of the object store, of the metadata log, and of the event loop."""
    lender = gateway.reads.lender.counters if gateway.reads.lender is not None else LenderCounters()
    gets = added([gateway.reads.reader.reads.times, lender.times])
    yield histogram("tidegate_store_get_seconds", "Range reads of the object store", gets)
    appends = gateway.coordinator.append_times
    yield histogram("tidegate_log_append_seconds", "Appends to the metadata log", appends)
    delays = gateway.loop_watch.delays
    yield histogram("tidegate_loop_delay_seconds", "How late the event loop runs a task", delays)


def load_metrics(gateway: Gateway) -> Iterator[Family]:
    """Yield how busy the gateway is."""
    idle = gateway.loop_watch.idle_share
    for name in (
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "kafka_network_socketserver_networkprocessoravgidle_percent",
    ):
        yield gauge(name, "Share of the last minute in which the event loop was idle", idle)
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    waiting = {
        "Fetch": gateway.counters.fetches.waiting,
        "Produce": len(gateway.writes.produce_deadlines),
    }
    lines = [line(name, label("delayedOperation", each), size) for each, size in waiting.items()]
    yield Series(name, "Requests that wait", "gauge", lines)
    yield gauge(
        "tidegate_large_request_elements",
        "Elements of large requests that are being answered",
        gateway.large_requests.elements,
    )
