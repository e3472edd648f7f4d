"""The read-only HTTP pages of `tidegate pipeline run --admin HOST:PORT`.

/livez, /healthz  the process runs
/readyz           a driver is at work, or waits for another's claim; otherwise 503
/metrics          Prometheus text
/version          JSON
/v1/status        JSON, as of `tidegate pipeline status`
"""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
import trio
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidegate_runtime.addresses import ListenerAddress, host_port, machine_names
from tidegate_runtime.doors.slots import HTTP_STRANGERS, ConnectionSlots, Visitor
from tidegate_runtime.http.hosts import KnownHosts
from tidegate_runtime.http.pages import Answer, answer_from, json_answer, serve_pages
from tidegate_runtime.listening import accept_forever, open_listener, stream_of
from tidegate_runtime.output_metrics import output_metrics
from tidegate_runtime.prometheus import CONTENT_TYPE, render

from ..driver import Driver
from .backlog import pipeline_status

_log = structlog.get_logger("tidegate.pipeline")

MAX_CONNECTIONS: Final = 16


class PipelinePages:
    """Pages about the running driver, if there is one."""

    def __init__(self, version: str) -> None:
        self.driver: Driver | None = None
        self._version = version
        self._pages = {
            "/healthz": self._alive,
            "/livez": self._alive,
            "/readyz": self._ready,
            "/metrics": self._metrics,
            "/version": self._show_version,
            "/v1/status": self._status,
        }

    async def answer(self, method: str, target: str) -> Answer:
        """See Pages."""
        return await answer_from(self._pages, method, target)

    async def _alive(self) -> Answer:
        return Answer(200, "ok\n")

    async def _ready(self) -> Answer:
        return Answer(200, "ready\n") if self.driver else Answer(503, "waiting; see the log\n")

    async def _metrics(self) -> Answer:
        found = list(driver_metrics(self.driver)) if self.driver is not None else []
        return Answer(200, await render(found), CONTENT_TYPE)

    async def _show_version(self) -> Answer:
        return json_answer({"version": self._version})

    async def _status(self) -> Answer:
        if self.driver is None:
            return Answer(503, "waiting; see the log\n")
        return json_answer(dataclasses.asdict(pipeline_status(self.driver.state, _now_ms())))


def driver_metrics(driver: Driver) -> Iterator[Metric]:
    """Yield all metrics; counters restart at 0 with each incarnation."""
    done = driver.counters
    for name, text, value in (
        ("rounds", "Rounds of merging.", done.rounds),
        ("units", "Stretches that were merged or compacted.", done.units),
        ("parents", "Their source runs and segments.", done.parents),
        ("bytes", "Bytes of records that were read and written.", done.bytes),
        ("records", "Records that were written.", done.records),
        ("store_reads", "Read requests to the object store.", done.gets),
        ("compactions", "Rounds of compaction in one partition.", done.compacted),
        ("records_removed", "Records that compaction removed.", done.removed),
        ("failed", "Units that failed.", done.failed),
    ):
        yield CounterMetricFamily(f"tidegate_pipeline_{name}", text, value=value)
    dropped = CounterMetricFamily(
        "tidegate_pipeline_dropped", "Units that were not published.", labels=["reason"]
    )
    for reason, times in sorted(done.dropped.items()):
        dropped.add_metric([reason], times)
    yield dropped
    status = pipeline_status(driver.state, _now_ms())
    for name, text, value in (
        ("claim_held", "Whether this driver holds the claim.", driver.holds_claim),
        ("failing", "Stretches whose last try failed.", driver.failing),
        ("backlog_runs", "Runs that are in no segment yet.", status.runs),
        ("backlog_bytes", "Bytes of the runs that are in no segment yet.", status.run_bytes),
        ("backlog_oldest_seconds", "Age of the oldest such run.", (status.oldest_ms or 0) / 1000),
        ("segments", "Segments of all partitions.", status.segments),
        ("segment_bytes", "Bytes of records in segments.", status.segment_bytes),
    ):
        yield GaugeMetricFamily(f"tidegate_pipeline_{name}", text, value=value)
    yield from output_metrics()


def _now_ms() -> int:
    return int(time.time() * 1000)


@asynccontextmanager
async def served(pages: PipelinePages, address: str) -> AsyncGenerator[None, None]:
    """Serve the pages at host:port, if one is given.

    Raises:
      SettingsError, PortInUse, CannotListen: the text says what to correct.
    """
    if not address:
        yield
        return
    listener = open_listener(ListenerAddress("ADMIN", *host_port("--admin", address)))
    try:
        _log.info("metrics are served", host=listener.address.host, port=listener.address.port)
        names = (*machine_names(), listener.address.host)
        hosts = KnownHosts(names, "use an IP address, or the name in --admin")
        slots = ConnectionSlots(MAX_CONNECTIONS, beside=HTTP_STRANGERS)

        async def serve(accepted: socket.socket, visitor: Visitor) -> None:
            await serve_pages(stream_of(accepted), pages, visitor, hosts=hosts)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept_forever, listener, serve, slots)
            yield
            nursery.cancel_scope.cancel()
    finally:
        listener.close()
