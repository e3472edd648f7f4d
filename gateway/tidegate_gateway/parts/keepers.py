"""The parts that drain a gateway, back the log up, and maintain the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from tidegate_coordination.state.changes import GATEWAYS
from tidegate_runtime.http.pages import Answer, json_answer

from ..cost.bill import packaged_prices
from ..cost.report import cost_report
from ..feature import Feature, Ground, Task
from ..settings.broker_settings import BrokerSettings
from ..upkeep.backup_schedule import BackupSchedule
from ..upkeep.cost_files import Books, CostFiles, CostSettings
from ..upkeep.gateway_watch import GatewayWatch
from ..upkeep.housekeeper import Housekeeper, HousekeeperSettings
from ..upkeep.metrics import backup_metrics, housekeeping_metrics
from ..upkeep.patience import SAY_AGAIN_SECONDS
from ..upkeep.upkeep import Upkeep
from .reads import ReadParts

MAX_KEPT_ENTRIES: Final = 1_000
LAST_COPY_SECONDS: Final = 5.0
LAST_COST_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class KeeperParts:
    """See the module's head."""

    backup: BackupSchedule
    housekeeper: Housekeeper
    cost_files: CostFiles
    upkeep: Upkeep

    @property
    def housekeeping(self) -> Feature:
        """Return the feature that deletes unneeded objects and entries."""
        return Feature(
            "housekeeping",
            tasks=(Task("keep house", self.housekeeper.run),),
            metrics=partial(housekeeping_metrics, self.housekeeper),
        )

    @property
    def backups(self) -> Feature:
        """Return the feature that backs up the log, and stores the gateway's costs."""
        tasks = (
            Task("back the metadata log up", self.backup.run),
            Task("write what this gateway cost", self.cost_files.run),
        )
        metrics = partial(backup_metrics, self.backup)
        return Feature("backups", tasks=tasks, metrics=metrics, pages={"/v1/cost": self.cost_page})

    async def leave(self) -> None:
        """Back up the log and store the costs, after this gateway has left the cluster.

        Each step has a deadline, and the process ends even if a step fails.
        """
        with trio.move_on_after(LAST_COPY_SECONDS):
            copy = partial(self.backup.look_and_copy, even_if_others_do=True)
            while not await self.upkeep.attempt("back the metadata log up", copy):  # noqa: ASYNC110 - it tries again
                await trio.sleep(SAY_AGAIN_SECONDS)
        with trio.move_on_after(LAST_COST_SECONDS):
            await self.upkeep.attempt("write what this gateway cost", self.cost_files.write)

    async def cost_page(self) -> Answer:
        """Return the page of requests and bytes by topic, client and group."""
        files = self.cost_files
        return json_answer(cost_report([files.recent()], packaged_prices(), await files.kept()))


def keeper_parts(
    ground: Ground,
    reads: ReadParts,
    books: Books,
    groups: Callable[[], Iterator[tuple[str, str]]],
) -> KeeperParts:
    """Make the parts.  books: of the environment's store.  groups: returns groups and clients."""
    state = ground.coordinator.state
    watch = GatewayWatch(state.gateways, ground.coordinator.incarnation)
    ground.coordinator.listen(watch.on_change, GATEWAYS)
    backup = _backup(ground)
    environment = ground.environment
    housekeeper = Housekeeper(
        ground.coordinator,
        environment.log,
        environment.store,
        housekeeper_settings(ground.settings),
        cluster=ground.cluster,
        check_owner=backup.check_owner,
        copied_log_time_ms=lambda: backup.copied_log_time_ms,
        see_copied=backup.cover,
        is_cut_off=lambda: reads.store_way.is_cut_off,
        wall_clock=environment.wall_clock,
        upkeep=ground.upkeep,
    )
    cost_files = CostFiles(
        ground.coordinator,
        ground.identity.node_id,
        books,
        cost_settings(ground.settings),
        groups=groups,
        is_housekeeper=housekeeper.may_expire_here,
        is_elsewhere=housekeeper.is_elsewhere,
        check_owner=backup.check_owner,
        wall_clock=environment.wall_clock,
        upkeep=ground.upkeep,
    )
    return KeeperParts(backup, housekeeper, cost_files, ground.upkeep)


def _backup(ground: Ground) -> BackupSchedule:
    settings, environment = ground.settings, ground.environment
    return BackupSchedule(
        ground.coordinator.state,
        environment.log,
        environment.store,
        interval_seconds=settings.int("log.backup.interval.ms") / 1000,
        check_seconds=settings.int("housekeeping.interval.ms") / 1000,
        snapshot_entries=settings.int("snapshot.interval.entries"),
        wall_clock=environment.wall_clock,
        upkeep=ground.upkeep,
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
    """Return how often the gateway stores its costs, and how long these are kept."""
    return CostSettings(
        interval_seconds=settings.int("cost.interval.ms") / 1000,
        retention_seconds=settings.int("cost.retention.ms") / 1000,
        linger_ms=settings.int("wal.linger.ms"),
        put_budget=settings.float("wal.put.budget.per.second"),
    )
