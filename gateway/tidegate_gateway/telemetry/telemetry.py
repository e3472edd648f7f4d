"""The clients that push metrics, and what they pushed (KIP-714)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from tidegate_coordination.state.configs import ConfigTable
from tidegate_protocol.compression import Codec, decompress
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import InvalidBatch, InvalidReason
from tidegate_protocol.messages.push_telemetry import PushTelemetryRequest

from ..network.call import Call, Peer
from ..work.client import client_of
from ..work.fair_pool import FairPool, PoolBusy
from .client_values import Client, ClientValues
from .instances import Instance, Instances
from .otlp import BadMetrics, Pushed, read_metrics
from .subscriptions import Subscriptions

MAX_TEXT: Final = 255
"""Characters of a client's text that are matched and shown: clients choose them."""
AT_ONCE_BYTES: Final = 4 * 1024
"""Read without a thread, which costs more than they do."""
_RESERVED: Final = (bytes(16), (1).to_bytes(16, "big"))
_UNKNOWN: Final = "unknown"
"""Kafka's name for software that a client did not tell."""


class Telemetry:
    """See the module's head.  max_bytes: the limit of one push, both as sent and decompressed."""

    def __init__(
        self,
        configs: ConfigTable,
        max_bytes: int,
        random_bytes: Callable[[int], bytes],
        pool: FairPool,
    ) -> None:
        self.max_bytes = max_bytes
        self.instances = Instances(Subscriptions(configs))
        self.values = ClientValues()
        self._random_bytes = random_bytes
        self._pool = pool

    def instance(self, call: Call, instance_id: bytes) -> Instance:
        """Return the client of a request.

        The client is new if its instance id is not known, or the subscriptions have changed.
        """
        attributes = _attributes(call, instance_id)
        found, is_new = self.instances.found(instance_id, attributes, _now_ms())
        if is_new:
            call.peer.telemetry_id = instance_id
        return found

    def new_id(self) -> bytes:
        """Return an instance id that no client has: a random UUID, version 4."""
        while True:
            drawn = bytearray(self._random_bytes(16))
            drawn[6], drawn[8] = drawn[6] & 0x0F | 0x40, drawn[8] & 0x3F | 0x80
            if bytes(drawn) not in self.instances:
                return bytes(drawn)

    def left(self, peer: Peer) -> None:
        """Forget the client of a connection that has ended; its values stay for a while."""
        if peer.telemetry_id is not None:
            self.instances.forget(peer.telemetry_id)

    def get(self, instance: Instance) -> ErrorCode:
        """Return the error of a request for a subscription; NONE if the client may have it."""
        return instance.get(_now_ms())

    async def push(self, call: Call, request: PushTelemetryRequest) -> ErrorCode:
        """Take the metrics of a push, and return the code of the answer."""
        instance_id = request.client_instance_id
        if instance_id in _RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = self.instance(call, instance_id)
        error = instance.push(request, self.max_bytes, _now_ms())
        if error is not ErrorCode.NONE or not request.metrics or not instance.choice.metrics:
            return error
        read = partial(self._read, request.metrics, request.compression_type)
        choice = instance.choice
        try:
            is_short = len(request.metrics) <= AT_ONCE_BYTES and not request.compression_type
            if is_short:
                pushed = read()
            else:
                size_bytes = len(request.metrics)
                pushed = await self._pool.run(client_of(call), lambda _: read(), size_bytes)
        except PoolBusy:
            error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        except BadMetrics:
            error = ErrorCode.INVALID_RECORD
        except InvalidBatch as invalid:
            is_long = invalid.reason is InvalidReason.INVALID_RECORD
            error = ErrorCode.TELEMETRY_TOO_LARGE if is_long else ErrorCode.INVALID_RECORD
        else:
            told = instance.attributes
            client = Client(told["client_id"], told["client_software_name"])
            self.values.take(client, instance_id, choice, pushed, _now_ms())
        # Another push of this instance may have been answered meanwhile; last_error is that of the
        # last answer.
        instance.last_error = error
        return error

    def _read(self, data: bytes, codec: int) -> Pushed:
        plain = data
        if codec != Codec.NONE:
            plain = bytes(decompress(data, codec, max_bytes=self.max_bytes))
        return read_metrics(plain)


def _attributes(call: Call, instance_id: bytes) -> dict[str, str]:
    """Return the attributes of a request's client that subscriptions can match."""
    software, version = call.peer.software
    texts = {
        "client_instance_id": uuid_text(instance_id),
        "client_id": call.client_id,
        "client_software_name": software or _UNKNOWN,
        "client_software_version": version or _UNKNOWN,
        "client_source_address": call.peer.host,
        "client_source_port": str(call.peer.port),
    }
    return {name: text[:MAX_TEXT] for name, text in texts.items()}


def uuid_text(raw: bytes) -> str:
    """Return a UUID as Kafka writes it."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _now_ms() -> float:
    return trio.current_time() * 1_000
