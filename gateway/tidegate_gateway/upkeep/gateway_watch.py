"""Logs at level INFO when other gateways start, drain and leave."""

from __future__ import annotations

from typing import NamedTuple

import structlog

from tidegate_coordination.state.writers.gateways import GatewayTable

_log = structlog.get_logger("tidegate.gateways")


class _Seen(NamedTuple):
    node_id: int
    zone: str
    draining: bool


class GatewayWatch:
    """Compares the live gateways with the last look, and logs changes; the first look logs nothing.

    Args:
      own_incarnation: not logged, as this gateway's start and stop are logged elsewhere.
    """

    def __init__(self, gateways: GatewayTable, own_incarnation: int) -> None:
        self._gateways = gateways
        self._own_incarnation = own_incarnation
        self._seen = self._present()
        self._version = gateways.version

    def on_change(self, touched: set[int]) -> None:
        """See Coordinator.listen()."""
        if self._gateways.version == self._version:
            return
        self._version = self._gateways.version
        before, self._seen = self._seen, self._present()
        for incarnation in before.keys() - self._seen.keys():
            _tell("a gateway is gone", before[incarnation])
        for incarnation, each in self._seen.items():
            if incarnation not in before:
                _tell("a gateway came", each)
            elif each.draining != before[incarnation].draining:
                _tell("a gateway drains" if each.draining else "a gateway takes work again", each)

    def _present(self) -> dict[int, _Seen]:
        return {
            each.incarnation: _Seen(each.node_id, each.zone, each.draining)
            for each in self._gateways.brokers()
            if each.incarnation != self._own_incarnation
        }


def _tell(what: str, gateway: _Seen) -> None:
    _log.info(what, node_id=gateway.node_id, zone=gateway.zone)
