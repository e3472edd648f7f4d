"""A producer with a quota of bytes, which each gateway counts for itself.

How long a gateway throttles depends on when the requests reach it, which the producer knows only
roughly.  So the producer judges only what holds in any case.  If it has sent at most ten seconds of
its quota in the last twelve seconds, the gateway must not throttle it.  If it has sent much more,
the gateway must.  And if an answer has a throttle time, the next answer must not come earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, Final

import trio

from tidegate_coordination.security.quotas import QuotaKey
from tidegate_gateway.gateway import Gateway
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.headers import encode_request_header
from tidegate_protocol.messages import alter_client_quotas as alter
from tidegate_protocol.messages import produce

from ..clients.client import Client, ClientConnection, Disconnected
from ..clients.workload import Workload, batch_bytes, create_topic
from ..plans.security.login_plan import THROTTLED, password_of
from .login import PLAIN, Secret, ask, log_in, open_connection

TOPIC: Final = "throttled"
_VERSION: Final = 9
# Eleven samples of a second, of which the oldest may have begun a second earlier.
_COUNTED_SECONDS: Final = 12.1
_SURELY_COUNTED_SECONDS: Final = 10.9
_BURST_SECONDS: Final = 10.0
_LONGEST_SPAN_SECONDS: Final = 12.1
_WAIT_SECONDS: Final = 60.0
_ROUNDING_SECONDS: Final = 0.002


@dataclass(slots=True)
class _Sent:
    """A request: when it was sent, when its answer came (inf for none), and its size.

    is_counted: the gateway knew the quota, and was not shutting down.
    """

    sent_at: float
    answered_at: float
    size_bytes: int
    is_counted: bool = False


class ThrottledProducer:
    """The producer, and its count of bytes against the quota."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._secret = Secret(PLAIN, THROTTLED, password_of(THROTTLED))
        self._sent: dict[Gateway, list[_Sent]] = {}
        self._number = 0

    async def run(self) -> None:
        """Set the quota; produce until no operation is left."""
        await self._set_quota()
        await create_topic(self.client, TOPIC, 1)
        self.client.close()
        world, rng = self.client.world, self.client.rng
        while self._workload.take():
            node_id = rng.choice(sorted(world.nodes))
            try:
                connection = await open_connection(world, self.client.name, node_id)
                answer = await log_in(connection, self._secret, rng)
                if not answer.code:
                    await self._work(connection, node_id)
                connection.close()
            except Disconnected:
                await self.client.pause(1.0)
            await self.client.pause(4.0)

    async def _set_quota(self) -> None:
        quota = self.client.world.plan.logins.quota
        entity = [alter.AlterClientQuotasRequestEntityData("user", THROTTLED)]
        ops = [alter.OpData(QuotaKey.PRODUCE, float(quota), False)]
        request = alter.AlterClientQuotasRequest(
            [alter.AlterClientQuotasRequestEntryData(entity, ops)]
        )
        while True:
            try:
                await self.client.call("AlterClientQuotas", alter, 1, request)
                return
            except Disconnected:
                await self.client.pause(1.0)

    async def _work(self, connection: ClientConnection, node_id: int) -> None:
        """Produce some batches, one after the other, while one session lasts."""
        free_at = 0.0
        for _ in range(self.client.rng.randint(1, 6)):
            gateway = self.client.world.nodes[node_id].gateway
            if gateway is None or not self._workload.take():
                return
            request = self._request()
            sent = _Sent(trio.current_time(), inf, _size(request, self.client.name))
            has_quota = self._has_quota(gateway)
            self._of(gateway).append(sent)
            response = await ask(
                connection, "Produce", produce, _VERSION, request, seconds=_WAIT_SECONDS
            )
            sent.answered_at = trio.current_time()
            sent.is_counted = has_quota and not gateway.is_draining
            if not sent.is_counted:
                return
            if sent.answered_at < free_at - _ROUNDING_SECONDS:
                text = f"{free_at - sent.answered_at:.3f} s too early"
                self.client.world.complain("a throttled client was not muted", text)
            self._judge(gateway, sent, response.throttle_time_ms)
            free_at = sent.sent_at + response.throttle_time_ms / 1000

    def _request(self) -> Any:
        self._number += 1
        now_ms = int(self.client.world.wall_clock() * 1000)
        values = [self._number] * self.client.rng.choice((1, 1, 5, 20))
        data = produce.PartitionProduceData(0, batch_bytes(values, now_ms, sequence=-1))
        return produce.ProduceRequest(
            None, -1, 30_000, [produce.TopicProduceData(TOPIC, partition_data=[data])]
        )

    def _of(self, gateway: Gateway) -> list[_Sent]:
        if gateway not in self._sent:
            self._sent[gateway] = []
        return self._sent[gateway]

    @staticmethod
    def _has_quota(gateway: Gateway) -> bool:
        quotas = gateway.coordinator.state.quotas
        return quotas.limit(QuotaKey.PRODUCE, THROTTLED, "") is not None

    def _judge(self, gateway: Gateway, sent: _Sent, throttle_ms: int) -> None:
        world, quota = self.client.world, self.client.world.plan.logins.quota
        # Keep only requests that the gateway may still count.
        self._sent[gateway] = [
            each
            for each in self._of(gateway)
            if each.answered_at >= sent.sent_at - _COUNTED_SECONDS
        ]
        most = sum(each.size_bytes for each in self._sent[gateway])
        least = sum(each.size_bytes for each in self._surely_counted(gateway, sent))
        text = f"{throttle_ms} ms for {least} to {most} bytes at {quota} bytes/s"
        if throttle_ms and most <= quota * _BURST_SECONDS:
            world.complain("a client was throttled below its quota", text)
        if not throttle_ms and least > quota * _LONGEST_SPAN_SECONDS:
            world.complain("a client was not throttled above its quota", text)
        world.strikes.count("logins.throttled", int(throttle_ms > 0))

    def _surely_counted(self, gateway: Gateway, last: _Sent) -> Iterator[_Sent]:
        for each in self._sent[gateway]:
            is_recent = each.sent_at >= last.answered_at - _SURELY_COUNTED_SECONDS
            if is_recent and each.is_counted:
                yield each


def _size(request: Any, client_id: str) -> int:
    head = encode_request_header(ApiKey.PRODUCE, _VERSION, 1, client_id=client_id)
    return len(head) + len(produce.encode_request(request, _VERSION))
