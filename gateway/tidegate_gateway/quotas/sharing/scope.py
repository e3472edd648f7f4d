"""Determines whether gateways share quotas.  Pure.

All gateways must agree.  So each writes quota.scope to the log with its other static settings, and
`cluster` holds for all gateways as soon as one live gateway has it.
"""

from __future__ import annotations

from typing import Final

from tidegate_coordination.configs.cluster_wide import QUOTA_SCOPE as SCOPE
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.static_settings import StaticSettingsTable
from tidegate_runtime.settings_texts import SettingsError

from ...settings.broker_settings import BrokerSettings

CLUSTER: Final = "cluster"


def asks_for_shares(settings: BrokerSettings) -> bool:
    """Return whether a gateway has quota.scope=cluster."""
    return settings.text(SCOPE) == CLUSTER


def refuse_scope_without_peers(settings: BrokerSettings) -> None:
    """Check that gateways that share quotas can ask each other.

    Raises:
      SettingsError: they cannot, without a peer.listener.
    """
    if asks_for_shares(settings) and not settings.text("peer.listener"):
        raise SettingsError(
            "quota.scope=cluster needs peer.listener=host:port: gateways ask each other for shares"
            " of quotas there (docs/operations/quotas.md)"
        )


def tells_shares(told: StaticSettingsTable, node_id: int) -> bool:
    """Return whether a gateway wrote to the log that it has quota.scope=cluster."""
    row = told.by_node_id.get(node_id)
    return row is not None and row.settings.get(SCOPE) == CLUSTER


class Scope:
    """Knows whether any gateway of the cluster shares quotas.  own: whether this one does."""

    def __init__(self, state: ClusterState, *, own: bool) -> None:
        self._state = state
        self._own = own
        self._as_of = -1
        self._found = own

    def of_cluster(self) -> bool:
        """Return whether the gateways share quotas now."""
        told, gateways = self._state.static_settings, self._state.gateways
        # both versions only rise, so their sum shows any change
        as_of = told.version + gateways.version
        if as_of != self._as_of and not self._own:
            self._as_of = as_of
            self._found = any(tells_shares(told, each.node_id) for each in gateways.brokers())
        return self._found
