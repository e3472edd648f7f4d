"""The settings of a gateway's parts, from the settings of the gateway.  Pure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from tidegate_coordination.classic.walked_batches import DECOMPRESSED_BYTES
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.security.quotas import normal_address
from tidegate_runtime.settings_texts import SettingsError

from .links.links import LinkSettings
from .network.receiver import ConnectionLimits
from .produce.wal_writer import WalSettings
from .quotas.rates import Windows
from .requests.cluster.delegation_tokens import TokenTimes
from .settings.broker_settings import BrokerSettings
from .upkeep.cost_files import CostSettings
from .upkeep.housekeeper import HousekeeperSettings

MAX_KEPT_ENTRIES: Final = 1_000


def wal_settings(settings: BrokerSettings) -> WalSettings:
    """Return the settings of the WAL writer."""
    return WalSettings(
        max_object_bytes=settings.int("wal.max.object.bytes"),
        put_budget_per_second=settings.float("wal.put.budget.per.second"),
        linger_seconds=settings.int("wal.linger.ms") / 1000,
        upload_slots=settings.int("wal.upload.slots"),
        put_timeout_seconds=settings.int("wal.put.timeout.ms") / 1000,
        # Sealed objects are copies, in addition to the requests that the setting bounds.
        max_in_flight_bytes=settings.int("buffered.bytes.max") // 2,
        walks_records=settings.text("record.validation") == "full",
    )


def housekeeper_settings(settings: BrokerSettings) -> HousekeeperSettings:
    """Return the settings of the housekeeper."""
    return HousekeeperSettings(
        interval_seconds=settings.int("housekeeping.interval.ms") / 1000,
        orphan_scan_seconds=settings.int("orphan.scan.interval.ms") / 1000,
        snapshot_entries=settings.int("snapshot.interval.entries"),
        kept_entries=min(MAX_KEPT_ENTRIES, settings.int("snapshot.interval.entries")),
    )


def cost_settings(settings: BrokerSettings) -> CostSettings:
    """Return how often the gateway writes what it cost, and how long that is kept."""
    return CostSettings(
        interval_seconds=settings.int("cost.interval.ms") / 1000,
        retention_seconds=settings.int("cost.retention.ms") / 1000,
        linger_ms=settings.int("wal.linger.ms"),
        put_budget=settings.float("wal.put.budget.per.second"),
    )


def link_settings(settings: BrokerSettings) -> LinkSettings:
    """Return the settings of links.

    Raises:
      SettingsError: link.client.properties or link.proxy.properties is not NAME=FILE,...
    """
    return LinkSettings(
        _files_by_link(settings, "link.client.properties"),
        _files_by_link(settings, "link.proxy.properties"),
        held_bytes=settings.int("link.held.bytes.max"),
        wait_seconds=settings.int("link.fetch.wait.ms") / 1000,
        sync_seconds=settings.int("link.topics.interval.ms") / 1000,
        group_lines=settings.int("link.group.requests.max"),
        decompressed_bytes=_mirrored_bytes(settings),
    )


def _mirrored_bytes(settings: BrokerSettings) -> int | None:
    """Return what a codec may make of a mirrored batch; None: its records are not looked at."""
    if settings.text("record.validation") != "full":
        return None
    return settings.int("record.decompressed.max.bytes") or DECOMPRESSED_BYTES


def _files_by_link(settings: BrokerSettings, name: str) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for item in settings.items(name):
        link, equals, path = item.partition("=")
        if not equals or not link.strip() or not path.strip():
            raise SettingsError(f"{name}: {item!r} is not NAME=FILE")
        files[link.strip()] = Path(path.strip())
    return files


def transaction_intervals(settings: BrokerSettings) -> tuple[float, float]:
    """Return the seconds between two looks for overdue transactions, and for expired ids."""
    abort_ms = settings.int("transaction.abort.timed.out.transaction.cleanup.interval.ms")
    expire_ms = settings.int("transaction.remove.expired.transaction.cleanup.interval.ms")
    return abort_ms / 1000, expire_ms / 1000


def token_times(settings: BrokerSettings) -> TokenTimes:
    """Return how long delegation tokens last."""
    return TokenTimes(
        lifetime_ms=settings.int("delegation.token.max.lifetime.ms"),
        expiry_ms=settings.int("delegation.token.expiry.time.ms"),
    )


def group_settings(settings: BrokerSettings) -> GroupSettings:
    """Return this gateway's values of Kafka's group settings."""
    return GroupSettings(
        initial_rebalance_delay_ms=settings.int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=settings.int("group.min.session.timeout.ms"),
        max_session_timeout_ms=settings.int("group.max.session.timeout.ms"),
        max_size=settings.int("group.max.size"),
        offset_metadata_max_bytes=settings.int("offset.metadata.max.bytes"),
    )


def connection_limits(settings: BrokerSettings) -> ConnectionLimits:
    """Return the limits of one connection."""
    return ConnectionLimits(
        max_frame_bytes=settings.int("socket.request.max.bytes"),
        idle_seconds=settings.int("connections.max.idle.ms") / 1000,
    )


def max_connections(settings: BrokerSettings, most: int) -> int:
    """Return how many connections the gateway accepts.

    Args:
      most: how many the process can have open.
    """
    return min(settings.int("max.connections"), most)


def connection_overrides(settings: BrokerSettings) -> dict[str, int]:
    """Return how many connections some addresses may have: ADDRESS:COUNT,...

    Raises:
      SettingsError: max.connections.per.ip.overrides is something else.
    """
    name = "max.connections.per.ip.overrides"
    found: dict[str, int] = {}
    for item in filter(None, map(str.strip, settings.text(name).split(","))):
        host, _, count = item.rpartition(":")
        address = normal_address(host.strip().strip("[]"))
        if address is None or not count.strip().isdecimal():
            raise SettingsError(f"{name}: {item!r} is not ADDRESS:COUNT")
        found[address] = int(count)
    return found


def with_advertised(settings: BrokerSettings, endpoints: tuple[Endpoint, ...]) -> BrokerSettings:
    """Return the settings with the endpoints that Metadata names as advertised.listeners."""
    advertised = ",".join(f"{each.listener}://{_in_url(each)}" for each in endpoints)
    return replace(settings, static={**settings.static, "advertised.listeners": advertised})


def _in_url(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def quota_windows(settings: BrokerSettings, prefix: str = "") -> Windows:
    """Return the windows in which quotas are counted; prefix: `controller.` for mutations."""
    return Windows(
        settings.int(f"{prefix}quota.window.num"),
        settings.int(f"{prefix}quota.window.size.seconds") * 1_000,
    )
