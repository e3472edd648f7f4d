"""The quotas of this gateway's clients, and their use.

Each gateway counts for itself, as each broker of Kafka does.  If the gateways share quotas
(sharing/), each counts against its shares.  Gateways do not share quotas of request time, since
that is a resource of each machine.  The limits come from the cluster state, and change as soon as
the gateway reads the change.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Final, NamedTuple

import structlog

from tidegate_coordination.security.quotas import Bucket, Limit, QuotaKey
from tidegate_coordination.state.security.quotas import ClientQuotaTable

from .rates import TokenBucket, Windows
from .sharing.shares import QuotaShares
from .usage import Buckets, MutationUsage, RateUsage, SharedUsage

MAX_CACHED: Final = 10_000

_log = structlog.get_logger("tidegate.quotas")


class ClientLimits(NamedTuple):
    """The quotas that hold for one client."""

    produce: Limit | None
    fetch: Limit | None
    request: Limit | None
    mutation: Limit | None


NO_LIMITS: Final = ClientLimits(None, None, None, None)


class ClientQuotas:
    """See the module's head.

    Args:
      windows: of rates.  mutation_windows: of the tokens of mutations.
      shares: used while is_shared() returns True.
    """

    def __init__(
        self,
        table: ClientQuotaTable,
        windows: Windows,
        mutation_windows: Windows,
        shares: QuotaShares,
        is_shared: Callable[[], bool],
    ) -> None:
        self.windows = windows
        self._mutation_windows = mutation_windows
        self._shares = shares
        self._is_shared = is_shared
        self._table = table
        self._as_of = -1
        self._limits: dict[tuple[str, str], ClientLimits] = {}
        self.request_time = Buckets[RateUsage](lambda _: RateUsage(windows))
        self.are_shared = is_shared()
        self._make_buckets()

    def look(self) -> None:
        """Reset the counts if gateways began or stopped sharing quotas, except request time."""
        if self._is_shared() != self.are_shared:
            self.are_shared = not self.are_shared
            self._make_buckets()
            _log.info("gateways share quotas" if self.are_shared else "no gateway shares quotas")
            if self.are_shared and not self._shares.asks:
                _log.warning(
                    "other gateways have quota.scope=cluster, and this one does not: its clients"
                    " get no more than quota / live gateways; restart it with quota.scope=cluster"
                )

    def _make_buckets(self) -> None:
        self.produced = self._rates("Produce")
        self.fetched = self._rates("Fetch")
        self.mutations = Buckets(self._mutations_of)

    def _rates(self, resource: str) -> Buckets[RateUsage]:
        windows, shares = self.windows, self._shares
        if not self.are_shared:
            return Buckets(lambda _: RateUsage(windows))
        burst_seconds = windows.burst_seconds

        def shared(bucket: Bucket) -> RateUsage:
            return SharedUsage(windows, shares.allowance(resource, bucket, burst_seconds))

        return Buckets(shared)

    def _mutations_of(self, bucket: Bucket) -> MutationUsage:
        windows = self._mutation_windows
        if not self.are_shared:
            return MutationUsage(windows, TokenBucket(windows))
        allowance = self._shares.allowance("ControllerMutation", bucket, windows.token_seconds)
        return MutationUsage(windows, allowance)

    @property
    def version(self) -> int:
        """The version of the table that the limits come from."""
        return self._table.version

    def limits(self, principal: str, client_id: str) -> ClientLimits:
        """Return the quotas of a client; NO_LIMITS itself if it has none.

        principal: such as "User:alice"; quotas use only the name.
        """
        if self._as_of != self._table.version:
            self._as_of = self._table.version
            self._limits.clear()
        if not len(self._table):
            return NO_LIMITS
        key = principal, client_id
        found = self._limits.get(key)
        if found is None:
            found = self._looked_up(principal.partition(":")[2], client_id)
            if len(self._limits) >= MAX_CACHED:
                self._limits.clear()
            self._limits[key] = found
        return found

    def _looked_up(self, user: str, client_id: str) -> ClientLimits:
        def limit(key: QuotaKey) -> Limit | None:
            found = self._table.limit(key, user, client_id)
            # Kafka accepts Infinity, too: it overrides less specific quotas, but sets no limit.
            return found if found is not None and isfinite(found.value) else None

        found = ClientLimits(
            limit(QuotaKey.PRODUCE),
            limit(QuotaKey.FETCH),
            limit(QuotaKey.REQUEST),
            limit(QuotaKey.MUTATION),
        )
        return NO_LIMITS if found == NO_LIMITS else found
