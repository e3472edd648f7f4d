"""A WAL writer without a gateway, for tests with only a store and a log."""

from __future__ import annotations

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_gateway.network.inflow import Inflow
from tidegate_gateway.produce.wal_settings import WalSettings
from tidegate_gateway.produce.wal_writer import WalWriter
from tidegate_storage.stores.object_store import ObjectStore


def make_writer(store: ObjectStore, coordinator: Coordinator, settings: WalSettings) -> WalWriter:
    """Return the writer of node 1, with objects wal/0, wal/1 ..., and without listeners."""
    return WalWriter(
        store,
        coordinator,
        settings,
        node_id=1,
        inflow=Inflow(),
        key_of=lambda identity: f"wal/{identity.counter}",
        is_append_time=lambda topic: False,
        on_stored=lambda name, key, body: None,
        after_answers=lambda: None,
    )
