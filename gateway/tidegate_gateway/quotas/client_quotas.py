"""The quotas of this gateway's clients, and how much of them is used up.

Each gateway counts for itself, as each broker of Kafka does.  The limits come from the cluster's
state, and change as soon as the gateway reads that they did.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidegate_coordination.security.quotas import Limit, QuotaKey
from tidegate_coordination.state.quotas import ClientQuotaTable

from .rates import Windows
from .usage import Buckets, MutationUsage, RateUsage

MAX_CACHED: Final = 10_000


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
    """

    def __init__(
        self, table: ClientQuotaTable, windows: Windows, mutation_windows: Windows
    ) -> None:
        self.windows = windows
        self._table = table
        self._as_of = -1
        self._limits: dict[tuple[str, str], ClientLimits] = {}
        self.produced = Buckets(lambda: RateUsage(windows))
        self.fetched = Buckets(lambda: RateUsage(windows))
        self.request_time = Buckets(lambda: RateUsage(windows))
        self.mutations = Buckets(lambda: MutationUsage(mutation_windows))

    @property
    def version(self) -> int:
        """What the limits are as of."""
        return self._table.version

    def limits(self, principal: str, client_id: str) -> ClientLimits:
        """Return the quotas of a client; NO_LIMITS itself if it has none.

        principal: such as "User:alice"; quotas are of its name.
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
        table = self._table
        found = ClientLimits(
            table.limit(QuotaKey.PRODUCE, user, client_id),
            table.limit(QuotaKey.FETCH, user, client_id),
            table.limit(QuotaKey.REQUEST, user, client_id),
            table.limit(QuotaKey.MUTATION, user, client_id),
        )
        return NO_LIMITS if found == NO_LIMITS else found
