"""The pages of the admin listener.

/livez, /healthz  the process runs
/readyz           clients may connect: started, not cut off from log or store, and not draining
                  while others serve; otherwise 503
/metrics          Prometheus text
/metrics/cluster  Prometheus text: partitions and groups, the same at all gateways
/version          JSON
/v1/status        JSON: facts about this gateway and its cluster
/v1/debug         JSON: settings without secrets, tasks, log lines; see debug_page.py

Features bring the others (feature.py):

/v1/links         JSON: links to classic clusters, and what this gateway mirrors of them
/v1/cost          JSON: requests and bytes by topic, client and group; see cost/report.py
/v1/zones         JSON: bytes within and across zones, by client; see zone_report.py
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import trio

from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_runtime.http.pages import Answer, answer_from, json_answer
from tidegate_runtime.last_lines import LastLines
from tidegate_runtime.log_levels import LogLevels
from tidegate_runtime.log_lines import PROCESS_LEVELS, PROCESS_LINES
from tidegate_runtime.prometheus import CONTENT_TYPE, render

from ..environment import Identity
from ..gateway import Gateway
from ..requests.transactions.metrics import oldest_seconds, totals_of
from ..settings.broker_settings import BrokerSettings
from .debug_page import debug_report, packages
from .metrics import render_cluster, render_metrics, starting_metrics


class AdminPages:
    """Pages about one gateway.

    Args:
      started: returns the gateway; None before it has started.
      lines, levels: of the process's log.
    """

    def __init__(
        self,
        identity: Identity,
        started: Callable[[], Gateway | None],
        version: str,
        settings: BrokerSettings,
        lines: LastLines = PROCESS_LINES,
        levels: LogLevels = PROCESS_LEVELS,
    ) -> None:
        self._settings = settings
        self._lines = lines
        self._levels = levels
        self._identity = identity
        self._started = started
        self._version = version
        self._pages: dict[str, Callable[[], Awaitable[Answer]]] = {
            "/healthz": self._alive,
            "/livez": self._alive,
            "/readyz": self._ready,
            "/metrics": self._metrics,
            "/metrics/cluster": self._cluster_metrics,
            "/version": self._show_version,
            "/v1/status": self._status,
            "/v1/debug": self._debug,
        }

    async def answer(self, method: str, target: str) -> Answer:
        """See Pages.  A gateway that is still starting has no pages of features."""
        gateway, pages = self._started(), dict(self._pages)
        if gateway is not None:
            for feature in gateway.features:
                pages |= feature.pages
        elif target.startswith("/v1/") and target.partition("?")[0] not in pages:
            return Answer(503, "starting\n")
        return await answer_from(pages, method, target)

    async def _alive(self) -> Answer:
        return Answer(200, "ok\n")

    async def _ready(self) -> Answer:
        gateway = self._started()
        if gateway is None:
            return Answer(503, "starting\n")
        if gateway.is_stopping or gateway.coordinator.has_left or gateway.draining.sends_away:
            return Answer(503, f"{state_of(gateway)}\n")
        if gateway.is_cut_off:
            return Answer(503, "cut off from the metadata log; other gateways serve\n")
        if gateway.reads.store_way.is_cut_off:
            why = gateway.reads.store_way.why
            return Answer(503, f"cut off from the object store; other gateways serve: {why}\n")
        if gateway.is_draining:
            return Answer(200, "ready: it is to drain, and no other gateway takes new work\n")
        return Answer(200, "ready\n")

    async def _metrics(self) -> Answer:
        gateway = self._started()
        if gateway is None:
            return Answer(200, await render(starting_metrics(self._identity)), CONTENT_TYPE)
        return Answer(200, await render_metrics(gateway), CONTENT_TYPE)

    async def _cluster_metrics(self) -> Answer:
        gateway = self._started()
        if gateway is None:
            return Answer(503, "starting\n")
        if gateway.is_cut_off:
            return Answer(503, "cut off from the metadata log; ask another gateway\n")
        return Answer(200, await render_cluster(gateway), CONTENT_TYPE)

    async def _show_version(self) -> Answer:
        return json_answer({"version": self._version})

    async def _status(self) -> Answer:
        gateway = self._started()
        if gateway is None:
            return json_answer(starting_status(self._identity))
        return json_answer(status_of(gateway))

    async def _debug(self) -> Answer:
        _ = await trio.to_thread.run_sync(packages)
        return json_answer(debug_report(self._settings, self._started(), self._lines, self._levels))


def state_of(gateway: Gateway) -> str:
    """Return serving, draining or drained."""
    if not gateway.is_draining:
        return "serving"
    return "drained" if gateway.draining.is_over else "draining"


def status_of(gateway: Gateway) -> dict[str, object]:
    """Return the status of a gateway and its cluster, as builtins."""
    return {
        **_identity_status(gateway.identity),
        "ready": True,
        "state": state_of(gateway),
        "draining": gateway.is_draining,
        "connections": len(gateway.connections),
        **_cluster_status(gateway),
    }


def starting_status(identity: Identity) -> dict[str, object]:
    """Return the status of a gateway that has not started, as builtins."""
    return {
        **_identity_status(identity),
        "ready": False,
        "state": "starting",
        "draining": False,
        "connections": 0,
    }


def _identity_status(me: Identity) -> dict[str, object]:
    return {
        "version": me.software_version,
        "node_id": me.node_id,
        "zone": me.zone,
        "listeners": [msgspec.structs.asdict(each) for each in me.endpoints],
    }


def _settings_status(cluster: ClusterSettings) -> dict[str, object]:
    """Return the cluster-wide settings that differ between gateways, as builtins.

    The list `unknown` has the node ids of the gateways that have not written their settings to the
    log.
    """
    differing = [
        {
            "name": each.name,
            "values": {str(node_id): value for node_id, value in each.values.items()},
            "holds": each.holds,
        }
        for each in cluster.disagreements
    ]
    return {"differing": differing, "unknown": cluster.unknown}


def _transactions_status(gateway: Gateway) -> dict[str, object]:
    state = gateway.coordinator.state
    totals = totals_of(state, gateway.cluster_settings)
    return {
        "ids": len(state.transactions),
        "open": totals.transactions,
        "oldest_open_seconds": oldest_seconds(state, totals),
    }


def _cluster_status(gateway: Gateway) -> dict[str, object]:
    state = gateway.coordinator.state
    counters = gateway.writes.writer.counters
    return {
        "cluster_id": state.cluster_id,
        "incarnation": gateway.coordinator.incarnation,
        "log_position": state.position,
        "log_time_ms": state.log_time_ms,
        "topics": len(state.topics.by_id),
        "partitions": len(state.partitions),
        "groups": len(state.groups),
        "transactions": _transactions_status(gateway),
        "wal_objects": len(state.objects),
        "gateways": [
            {
                "node_id": each.node_id,
                "zone": each.zone,
                "version": each.software_version,
                "draining": each.draining,
            }
            for each in state.gateways.brokers()
        ],
        "settings": _settings_status(gateway.cluster_settings),
        "written": {
            "objects": counters.objects,
            "bytes": counters.bytes,
            "batches": counters.batches,
            "abandoned": counters.abandoned,
            "put_retries": counters.put_retries,
        },
        "cache_used_bytes": gateway.reads.cache.used_bytes,
        "backup": {
            "position": gateway.keepers.backup.status.position,
            "time_ms": gateway.keepers.backup.status.time_ms,
            "failures": gateway.keepers.backup.status.failures,
        },
    }
