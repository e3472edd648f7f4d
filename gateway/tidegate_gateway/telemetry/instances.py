"""The client instances that ask for subscriptions and push, and when they may (KIP-714).  Pure.

As in Kafka, a client may send its instance id to any gateway, and is known there from then on.
Times are milliseconds of a monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.push_telemetry import PushTelemetryRequest

from .subscriptions import Choice, Subscriptions

MAX_INSTANCES: Final = 16_384
"""Kafka's bound; the one that was silent for longest makes room."""
FORGET_AFTER_MS: Final = 60_000
FORGET_AFTER_INTERVALS: Final = 3
_CODECS: Final = range(5)
# A client whose push was refused with one of these codes may ask for its subscription at once.
_ASK_AGAIN: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@dataclass(slots=True)
class Instance:
    """One client.  attributes: see ClientMatch; taken from its first request.

    version: the version of the subscriptions from which the choice was made.
    """

    attributes: Mapping[str, str]
    choice: Choice
    version: int
    got_ms: float = -inf
    pushed_ms: float = -inf
    seen_ms: float = -inf
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    def has_gone(self, now_ms: float) -> bool:
        """Return whether the client was silent for so long that it now counts as new."""
        lasts_ms = max(FORGET_AFTER_MS, FORGET_AFTER_INTERVALS * self.choice.interval_ms)
        return now_ms - self.seen_ms >= lasts_ms

    def get(self, now_ms: float) -> ErrorCode:
        """Return the error of a request for the subscription, or NONE; note the request."""
        if now_ms - max(self.got_ms, self.pushed_ms) >= self.choice.interval_ms:
            self.got_ms = now_ms
        elif self.last_error not in _ASK_AGAIN:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self.last_error = ErrorCode.NONE
        return ErrorCode.NONE

    def push(self, request: PushTelemetryRequest, max_bytes: int, now_ms: float) -> ErrorCode:
        """Return the error of a push, or NONE; note the push."""
        self.last_error = self._refusal(request, max_bytes, now_ms)
        self.is_terminating = request.terminating
        return self.last_error

    def _refusal(self, request: PushTelemetryRequest, max_bytes: int, now_ms: float) -> ErrorCode:
        if self.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not self._take_turn(now_ms) and not request.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != self.choice.id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type not in _CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _take_turn(self, now_ms: float) -> bool:
        # The first push after a request for the subscription may come early: clients spread their
        # pushes.
        is_first = self.got_ms > self.pushed_ms
        if not is_first and now_ms - self.pushed_ms < self.choice.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class Instances:
    """The clients by instance id, at most MAX_INSTANCES.

    A client is forgotten after a minute, or three of its intervals if longer, without a request.
    """

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self._by_id: OrderedDict[bytes, Instance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, instance_id: bytes) -> bool:
        return instance_id in self._by_id

    def found(
        self, instance_id: bytes, attributes: Mapping[str, str], now_ms: float
    ) -> tuple[Instance, bool]:
        """Return a client, and whether it is new; any change of the subscriptions makes it new.

        attributes: those of the request's client; a known client keeps its earlier ones.
        """
        self._forget_silent(now_ms)
        version = self._subscriptions.version
        known = self._by_id.pop(instance_id, None)
        if known is not None and known.has_gone(now_ms):
            known = None
        is_new = known is None or known.version < version
        if known is None or is_new:
            kept = attributes if known is None else known.attributes
            choice = self._subscriptions.choice_of(kept, instance_id)
            known = Instance(kept, choice, version)
        known.seen_ms = now_ms
        self._by_id[instance_id] = known
        if len(self._by_id) > MAX_INSTANCES:
            self._by_id.popitem(last=False)
        return known, is_new

    def forget(self, instance_id: bytes) -> None:
        """Forget a client, as after the end of its connection."""
        self._by_id.pop(instance_id, None)

    def _forget_silent(self, now_ms: float) -> None:
        """Forget the clients that were silent for too long, the longest silent first.

        This stops at the first client that may stay, so a client with a long interval also keeps
        the clients after it.  MAX_INSTANCES still limits their number.
        """
        while self._by_id:
            instance_id, oldest = next(iter(self._by_id.items()))
            if not oldest.has_gone(now_ms):
                return
            del self._by_id[instance_id]
