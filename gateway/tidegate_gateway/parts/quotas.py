"""The parts that apply quotas to clients."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tidegate_coordination.state.changes import GATEWAYS, QUOTAS, STATIC_SETTINGS

from ..feature import Ground
from ..network.connection import Connection
from ..quotas.client_quotas import ClientQuotas
from ..quotas.connection_rates import ConnectionRates
from ..quotas.rates import Windows
from ..quotas.sharing.exchange import ShareExchange
from ..quotas.sharing.scope import Scope, asks_for_shares
from ..quotas.sharing.shares import QuotaShares
from ..quotas.throttling import Throttling
from ..settings.broker_settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class QuotaParts:
    """share_exchange: None for a gateway that asks no other gateways for shares."""

    quota_shares: QuotaShares
    share_exchange: ShareExchange | None
    quotas: ClientQuotas
    throttling: Throttling
    connection_rates: ConnectionRates


def quota_parts(
    ground: Ground,
    unheard: Callable[[], frozenset[int]],
    is_draining: Callable[[], bool],
    connections: Collection[Connection],
) -> QuotaParts:
    """Make the parts.

    unheard: the incarnations that do not answer.  connections: the open connections.
    """
    coordinator, settings, state = ground.coordinator, ground.settings, ground.coordinator.state
    asks, peers = asks_for_shares(settings), ground.environment.peers
    shares = QuotaShares(coordinator, unheard, asks=asks)
    exchange = ShareExchange(shares, peers) if asks and peers is not None else None
    quotas = ClientQuotas(
        state.quotas,
        quota_windows(settings),
        quota_windows(settings, "controller."),
        shares,
        Scope(state, own=asks).of_cluster,
    )
    throttling = Throttling(quotas, ground.environment.step_time, is_draining, lambda: connections)
    coordinator.listen(throttling.on_change, QUOTAS | STATIC_SETTINGS | GATEWAYS)
    rates = ConnectionRates(
        state.quotas, quotas.windows, settings.int("max.connection.creation.rate")
    )
    return QuotaParts(shares, exchange, quotas, throttling, rates)


def quota_windows(settings: BrokerSettings, prefix: str = "") -> Windows:
    """Return the windows of quotas.  prefix: `controller.` for the quota of mutations."""
    return Windows(
        settings.int(f"{prefix}quota.window.num"),
        settings.int(f"{prefix}quota.window.size.seconds") * 1_000,
    )
