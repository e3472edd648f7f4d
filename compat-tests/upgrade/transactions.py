"""Transactional clients during an upgrade; they begin once the cluster has transactions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from faults.attendance import Say
from faults.driver import Driver
from faults.world import World
from histories.clients import Launcher, create_topics, pay_in
from histories.history import History, Records
from histories.watch import HistoryWatch, Judged

LEVEL: Final = 4
"""The metadata.version that has transactions; releases below it refuse them."""
RATE: Final = 3
SEED: Final = 1


class Transactions:
    """See the module's head.  watch: None before they begin, or if no client is asked for."""

    def __init__(
        self, world: World, names: Sequence[str], driver: Driver, logs: Path, say: Say
    ) -> None:
        self._world = world
        self._names = names
        self._driver = driver
        self._logs = logs
        self._say = say
        self.watch: HistoryWatch | None = None

    def begin(self, level: int) -> None:
        """Start the clients, if the cluster's level permits it and they do not run yet."""
        if level < LEVEL or self.watch is not None or not self._names:
            return
        create_topics(self._world.bootstrap, self._names)
        records = Records()
        bank = pay_in(self._world.bootstrap, records)
        launcher = Launcher(self._world.bootstrap, RATE, SEED, self._logs)
        histories = [History(each, records) for each in self._names]
        self.watch = HistoryWatch(self._world, launcher, histories, bank, self._driver, self._say)

    def finish(self) -> Judged:
        """End the clients, and judge their histories."""
        return self.watch.finish(()) if self.watch is not None else Judged()

    def close(self) -> None:
        """End all clients, whatever happened."""
        if self.watch is not None:
            self.watch.close()
