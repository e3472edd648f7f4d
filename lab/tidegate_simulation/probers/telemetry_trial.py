"""At the end of some runs, clients push metrics while gateways die and subscriptions change.

Each meter keeps its instance id, and goes from gateway to gateway.  It pushes a gauge and a
counter; two meters share their client id.  At last a crowd of clients pushes under ever new names,
and reaches the bounds of the page, which are small here.

Kinds of violations:

    pushed and not shown          a value is not at the gateway that took it, under its client
    wrong count                   a counter is not the sum of what that gateway took
    too many series               the page shows more than its bounds allow
    not forgotten                 values are shown long after their clients left
    subscription ids differ       gateways give one client different ids for one subscription
    late subscription             a gateway asks for what an older subscription asked for
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from random import Random
from struct import pack
from typing import Any, Final
from unittest.mock import patch

import trio

from tidegate_gateway.gateway import Gateway
from tidegate_gateway.telemetry import client_values
from tidegate_gateway.telemetry.client_values import Client as PageClient
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import get_telemetry_subscriptions as gts
from tidegate_protocol.messages import incremental_alter_configs as iac
from tidegate_protocol.messages import push_telemetry as push
from tidegate_protocol.primitives import ZERO_UUID

from ..clients.client import Client, Disconnected
from ..plans.faults import FaultPlan
from ..world.node import Node
from ..world.world import World

KIND: Final = "telemetry.gateway_died"
CHANGED: Final = "telemetry.subscription_changed"
SOFTWARE: Final = "tidegate-simulation"
GAUGE, COUNT = "tidegate_client_sim_gauge", "tidegate_client_sim_count_total"
MAX_CLIENTS, MAX_SERIES = 6, 14
"""Clients of meters take six series."""
_SHARE: Final = 0.06
_METERS: Final = ("meter one", "meter two", "meters", "meters")
_CLIENT_METRICS, _SET, _DELETE = 16, 0, 1
_INTERVAL_MS: Final = 1_000
_PHASE_SECONDS: Final = 20.0
_AWAY_SECONDS: Final = 8.0
_READ_SECONDS: Final = 10.0
"""By then each gateway has read the log, or has died."""
_FORGOTTEN_SECONDS: Final = 6.0
_STAYS_SECONDS: Final = 2.5
"""A client that is silent for so long may be forgotten."""
_STRIKES: Final = 3


def draws_telemetry(seed: int, plan: FaultPlan) -> bool:
    """Return whether a run ends with clients that push; it has its own random numbers.

    plan: runs with rights or logins have no such end, because they may deny a client its requests.
    Nor have runs with a rolling upgrade.
    """
    is_open = not (plan.rights.is_on or plan.logins.is_on or plan.versions.is_rolling)
    return is_open and Random(f"{seed}/telemetry").random() < _SHARE


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128 * 128
    low, high = len(content) & 127, len(content) >> 7
    size = bytes([low | 128, high]) if high else bytes([low])
    return bytes([number << 3 | 2]) + size + content


def _metric(name: str, kind: int, value: float, *more: int) -> bytes:
    """Return an OpenTelemetry metric with one value.  kind: 5 for a gauge, 7 for a sum."""
    point = bytes([4 << 3 | 1]) + pack("<d", value)
    return _field(2, _field(1, name.encode()) + _field(kind, _field(1, point) + bytes(more)))


def pushed(gauges: dict[str, float], deltas: dict[str, float]) -> bytes:
    """Return MetricsData."""
    metrics = [_metric(name, 5, value) for name, value in gauges.items()]
    metrics += [_metric(name, 7, value, 2 << 3, 1) for name, value in deltas.items()]
    return _field(1, _field(2, b"".join(metrics)))


class Meter:
    """A client that keeps pushing; like Kafka's clients, it asks again if it must."""

    def __init__(self, trial: TelemetryTrial, name: str, client_id: str) -> None:
        self.client = Client(trial.world, name)
        self.client.client_id = client_id
        self.shown_as = PageClient(client_id, SOFTWARE)
        self._trial = trial
        self._instance_id = ZERO_UUID
        self._told: gts.GetTelemetrySubscriptionsResponse | None = None
        self._value = 0

    async def run(self) -> None:
        """Push, forever."""
        while True:
            try:
                await self._turn()
            except Disconnected:
                await self.client.pause(0.5)
            if self.client.rng.random() < 0.1:
                self.client.close()
            await trio.sleep(_INTERVAL_MS / 1000)

    async def _turn(self) -> None:
        if self._told is None:
            self._told = await self._ask()
        if self._told is not None:
            await self._push(self._told)

    async def _ask(self) -> gts.GetTelemetrySubscriptionsResponse | None:
        since = trio.current_time()
        request = gts.GetTelemetrySubscriptionsRequest(self._instance_id)
        told: gts.GetTelemetrySubscriptionsResponse
        told = await self.client.call("GetTelemetrySubscriptions", gts, 0, request)
        if told.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            return None
        if told.error_code:
            self._trial.world.complain("false error", f"GetTelemetrySubscriptions: {told}")
            return None
        self._instance_id = told.client_instance_id
        self._trial.note_told(told, since)
        return told

    async def _push(self, told: gts.GetTelemetrySubscriptionsResponse) -> None:
        self._value += 1
        data = pushed({"sim.gauge": float(self._value)}, {"sim.count": 1.0})
        request = push.PushTelemetryRequest(
            told.client_instance_id, told.subscription_id, metrics=data
        )
        await self.client.connection()  # ApiVersions comes first, so that only the push can be lost
        gateway = self._trial.gateway_of(self.client)
        counts = self._trial.counts_of(gateway, self.shown_as)
        counts.open += 1
        answer = await self.client.call("PushTelemetry", push, 0, request)
        counts.open -= 1
        if answer.error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID:
            self._told = None
        elif answer.error_code == ErrorCode.NONE:
            counts.take()
            self._trial.judge(gateway, self.shown_as, float(self._value))
        elif answer.error_code != ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            self._trial.world.complain("false error", f"PushTelemetry: {answer}")


class Crowd:
    """Clients that push many metrics under many names, each once."""

    def __init__(self, trial: TelemetryTrial) -> None:
        self._trial = trial
        self._rng = trial.world.rng("telemetry crowd")

    async def run(self) -> None:
        """Connect one client after the other, and disconnect it again, forever."""
        number = 0
        while True:
            number += 1
            client = Client(self._trial.world, f"crowd {number}")
            with suppress(Disconnected):
                await self._push(client, number)
            client.close()
            await trio.sleep(self._rng.random() * 0.5)

    async def _push(self, client: Client, number: int) -> None:
        request = gts.GetTelemetrySubscriptionsRequest()
        told: Any = await client.call("GetTelemetrySubscriptions", gts, 0, request)
        names = [f"sim.{number}.{each}" for each in range(10)]
        data = pushed(dict.fromkeys(names, 1.0), dict.fromkeys(names, 1.0))
        await client.call(
            "PushTelemetry",
            push,
            0,
            push.PushTelemetryRequest(told.client_instance_id, told.subscription_id, metrics=data),
        )


@dataclass(slots=True)
class Counts:
    """The pushes of one client that one incarnation of a gateway took.

    since: those after the last longer pause.  open: those without an answer.
    """

    taken: int = 0
    since: int = 0
    open: int = 0
    taken_at: float = -inf

    def take(self) -> None:
        """Count one push."""
        now = trio.current_time()
        self.since = 1 if now - self.taken_at > _STAYS_SECONDS else self.since + 1
        self.taken, self.taken_at = self.taken + 1, now


class TelemetryTrial:
    """The trial of pushed metrics at the end of a run."""

    def __init__(self, world: World, nodes: Sequence[Node]) -> None:
        self.world = world
        self._nodes = nodes
        self._rng = world.rng("telemetry trial")
        self._ids: dict[tuple[bytes, tuple[str, ...], int], int] = {}
        self._counts: dict[tuple[int, PageClient], Counts] = {}
        self._is_crowded = False
        self._metrics: list[str] = []
        self._changed_at = 0.0

    async def run(self) -> None:
        """Run the whole trial."""
        with (
            patch.object(client_values, "MAX_CLIENTS", MAX_CLIENTS),
            patch.object(client_values, "MAX_SERIES", MAX_SERIES),
        ):
            await self._subscribe("sim.gauge,sim.count")
            async with trio.open_nursery() as nursery:
                for number, client_id in enumerate(_METERS):
                    nursery.start_soon(Meter(self, f"meter {number}", client_id).run)
                await trio.sleep(_PHASE_SECONDS)
                for _ in range(_STRIKES):
                    await self._strike()
                    await trio.sleep(_PHASE_SECONDS)
                await self._subscribe("sim.")
                self._is_crowded = True
                nursery.start_soon(Crowd(self).run)
                nursery.start_soon(self._watch)
                await trio.sleep(_PHASE_SECONDS)
                nursery.cancel_scope.cancel()
            await trio.sleep(_FORGOTTEN_SECONDS)
            for gateway in self._gateways():
                if left := _series_of(gateway):
                    self.world.complain("not forgotten", f"{sorted(left)[:3]}")
        await self._subscribe("")

    def gateway_of(self, client: Client) -> Gateway:
        """Return the gateway that a client is connected to.

        Raises:
          Disconnected: the gateway is not live any more.
        """
        gateway = self.world.nodes[client.node_id].gateway
        if gateway is None:
            raise Disconnected
        return gateway

    def counts_of(self, gateway: Gateway, client: PageClient) -> Counts:
        """Return the counts of a client's pushes to this incarnation: those taken and those without
        answer.
        """
        key = gateway.coordinator.incarnation, client
        return self._counts.setdefault(key, Counts())

    def note_told(self, told: gts.GetTelemetrySubscriptionsResponse, since: float) -> None:
        """Judge the subscription that a client got."""
        metrics = tuple(told.requested_metrics)
        key = told.client_instance_id, metrics, told.push_interval_ms
        before = self._ids.setdefault(key, told.subscription_id)
        if before != told.subscription_id:
            self.world.complain("subscription ids differ", f"{before}, {told.subscription_id}")
        if since - self._changed_at > _READ_SECONDS and list(metrics) != self._metrics:
            text = f"{list(metrics)} is asked for {since - self._changed_at} s after the change"
            self.world.complain("late subscription", text)

    def judge(self, gateway: Gateway, client: PageClient, value: float) -> None:
        """Compare the page with what a gateway has just taken."""
        if self._is_crowded:
            return  # the crowd may have taken the client's place on the page
        series, counts = _series_of(gateway), self.counts_of(gateway, client)
        if series.get((GAUGE, client), -1.0) < value:
            text = f"{value} of {client}, {series.get((GAUGE, client))} is shown"
            self.world.complain("pushed and not shown", text)
        shown = series.get((COUNT, client), 0.0)
        if not counts.since <= shown <= counts.taken + counts.open:
            self.world.complain("wrong count", f"{shown} of {client}, {counts}")

    def _gateways(self) -> list[Gateway]:
        return [each.gateway for each in self._nodes if each.gateway is not None]

    async def _watch(self) -> None:
        while True:
            await trio.sleep(0.5)
            for gateway in self._gateways():
                series = _series_of(gateway)
                own = [client for _, client in series if client != client_values.OTHER]
                if len(set(own)) > MAX_CLIENTS or len(own) > MAX_SERIES:
                    self.world.complain("too many series", f"{len(own)} of {len(set(own))}")

    async def _strike(self) -> None:
        """Let a gateway die and come back, or change the subscription, or both."""
        kinds = self._rng.choice(((KIND,), (CHANGED,), (KIND, CHANGED)))
        if KIND in kinds:
            self.world.strikes.count(KIND)
            node = self._rng.choice(self._nodes)
            node.away_until = trio.current_time() + _AWAY_SECONDS
            node.crash()
            await trio.lowlevel.checkpoint()
        if CHANGED in kinds:
            self.world.strikes.count(CHANGED)
            await self._subscribe(self._rng.choice(("sim.", "*", "sim.count,sim.gauge")))

    async def _subscribe(self, metrics: str) -> None:
        """Change the metrics of the subscription; "" removes the subscription."""
        operation = _SET if metrics else _DELETE
        settings = {"metrics": metrics, "interval.ms": str(_INTERVAL_MS)}
        configs = [iac.AlterableConfig(name, operation, text) for name, text in settings.items()]
        resource = iac.AlterConfigsResource(_CLIENT_METRICS, "of the trial", configs)
        request = iac.IncrementalAlterConfigsRequest([resource])
        admin = Client(self.world, "subscriber")
        answer = await admin.insist("IncrementalAlterConfigs", iac, 1, request)
        if answer.responses[0].error_code:
            self.world.complain("false error", f"IncrementalAlterConfigs: {answer}")
        admin.close()
        self._metrics, self._changed_at = sorted(metrics.split(",")), trio.current_time()


def _series_of(gateway: Gateway) -> dict[tuple[str, PageClient], float]:
    """Return the series of clients that a gateway's page would show."""
    values = gateway.telemetry.values
    values.forget_silent(trio.current_time() * 1_000)
    return {(name, client): each for name, client, each in (*values.gauges(), *values.counters())}
