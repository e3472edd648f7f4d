"""One request's use of its client's quotas, and the resulting throttle time.

The answer has the longest of the throttle times, and the gateway reads no further request of the
connection for this time (KIP-219).  The request itself is always served, with two exceptions: a
fetch above its quota is answered without records, and topics above the quota of mutations are
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .client_quotas import ClientLimits, ClientQuotas
from .step_time import StepClock
from .usage import RecentMean, Tokens

_PERCENT: Final = 100.0


class MutationQuota:
    """The tokens that one request takes for the partitions that it creates or deletes (KIP-599).

    is_strict: while tokens are missing, refuse topics; otherwise only throttle the client.
    """

    def __init__(self, tokens: Tokens, quota: float, now_ms: int, *, is_strict: bool) -> None:
        self._tokens = tokens
        self._quota = quota
        self._now_ms = now_ms
        self._is_strict = is_strict
        self.taken = 0
        self.throttle_ms = 0

    def take(self, partitions: int) -> bool:
        """Take tokens for a topic; return False if the topic is refused."""
        if self._is_strict:
            self.throttle_ms = self._tokens.throttle_ms(self._quota, self._now_ms)
            if self.throttle_ms > 0:
                return False
        self._tokens.take(partitions, self._quota, self._now_ms)
        self.taken += partitions
        if not self._is_strict:
            self.throttle_ms = self._tokens.throttle_ms(self._quota, self._now_ms)
        return True


class RequestCost:
    """See the module's head.

    clock: of the handler's steps; None if the client has no quota of request time.

    Args:
      limits: of the client, at least one.
      now_ms: when the request came.
      step_time: see StepClock.
    """

    def __init__(
        self,
        quotas: ClientQuotas,
        limits: ClientLimits,
        now_ms: int,
        step_time: Callable[[], float],
    ) -> None:
        self._quotas = quotas
        self._limits = limits
        self._now_ms = now_ms
        self._mutations: MutationQuota | None = None
        self._throttle_ms = 0
        self._throttled: RecentMean | None = None
        self.clock = StepClock(step_time) if limits.request is not None else None
        self._is_time_counted = False

    def produce(self, size_bytes: int) -> None:
        """Count the bytes of a produce request."""
        limit = self._limits.produce
        if limit is not None:
            usage = self._quotas.produced.of(limit.bucket, self._now_ms)
            throttle_ms = usage.spend(size_bytes, limit.value, self._now_ms)
            self._throttle(throttle_ms, usage.throttled)

    @property
    def fetch_bytes(self) -> int | None:
        """The most bytes for a fetch, since more would be throttled in any case."""
        limit = self._limits.fetch
        if limit is None:
            return None
        usage = self._quotas.fetched.of(limit.bucket, self._now_ms)
        return usage.most(limit.value, self._now_ms)

    def fetch(self, size_bytes: int, now_ms: int) -> bool:
        """Count the bytes of an answer; return False if it must be sent without records.

        Bytes that are not sent are not counted.  A single batch may be above fetch_bytes, so that
        no wait would admit it.  Such an answer is sent once nothing was fetched for long enough.
        """
        self.count_time(now_ms)
        limit = self._limits.fetch
        if limit is not None:
            usage = self._quotas.fetched.of(limit.bucket, now_ms)
            throttle_ms = usage.offer(size_bytes, limit.value, now_ms)
            self._throttle(throttle_ms, usage.throttled)
            if self._throttle_ms:
                usage.take_back(size_bytes, limit.value, now_ms)
        return not self._throttle_ms

    def mutations(self, *, is_strict: bool) -> MutationQuota | None:
        """Return the quota of partitions that are created or deleted; None without one."""
        limit = self._limits.mutation
        if limit is None:
            return None
        usage = self._quotas.mutations.of(limit.bucket, self._now_ms)
        self._mutations = MutationQuota(
            usage.tokens, limit.value, self._now_ms, is_strict=is_strict
        )
        return self._mutations

    def count_time(self, now_ms: int) -> None:
        """Count the time of the handler, once."""
        limit = self._limits.request
        if limit is None or self.clock is None or self._is_time_counted:
            return
        self._is_time_counted = True
        usage = self._quotas.request_time.of(limit.bucket, now_ms)
        throttle_ms = usage.spend(self.clock.seconds * _PERCENT, limit.value, now_ms)
        self._throttle(min(throttle_ms, self._quotas.windows.window_ms), usage.throttled)

    def spend_seconds(self, seconds: float, now_ms: int) -> None:
        """Count the CPU time of a thread, even after the request's end or without an answer."""
        limit = self._limits.request
        if limit is not None:
            usage = self._quotas.request_time.of(limit.bucket, now_ms)
            usage.rate.record(seconds * _PERCENT, now_ms)

    def throttle_ms(self, now_ms: int, *, with_time: bool = True) -> int:
        """Return the throttle time by all quotas; called once, at the end.

        with_time: whether the time of the handler counts.
        """
        if with_time:
            self.count_time(now_ms)
        self._count_mutations(now_ms)
        if self._throttled is not None:
            self._throttled.record(self._throttle_ms, now_ms)
        return self._throttle_ms

    def _count_mutations(self, now_ms: int) -> None:
        limit, mutations = self._limits.mutation, self._mutations
        if limit is None or mutations is None:
            return
        usage = self._quotas.mutations.of(limit.bucket, now_ms)
        usage.rate.record(mutations.taken, now_ms)
        # The handler may have waited for the log meanwhile.
        elapsed_ms = now_ms - self._now_ms
        self._throttle(max(mutations.throttle_ms - elapsed_ms, 0), usage.throttled)

    def _throttle(self, throttle_ms: int, throttled: RecentMean) -> None:
        if throttle_ms > self._throttle_ms:
            self._throttle_ms, self._throttled = throttle_ms, throttled
