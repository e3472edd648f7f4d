"""Operators who move the metadata log: each repeats the command until the log has moved.

A mover does what `tidegate log move` does, on a machine that fails as all machines do (host.py).
It is interrupted at any moment and begins again.  Meanwhile gateways are killed, most often when
the old log is sealed.  One of the two logs is unreachable for some or for all machines.  A
restarted gateway opens any log of the cluster's past.  Now and then it opens the new log too early,
which it has to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_coordination.coordinator.visitor import keep_lease, register_visitor
from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.log_move.mover import LogMover, MovePlan, MoveRefused
from tidegate_coordination.logs.movable import MovableLog

from ..plans.move_plan import PREFIX
from ..world.host import Host
from ..world.node import Node
from ..world.world import World

LOAD_SECONDS: Final = 120.0
_PLACES: Final = ("before append", "after append", "before read", "after save_snapshot")
_MAX_CALLS: Final = 30
_FIRST_SECONDS: Final = 20.0
_THOUGHT_SECONDS: Final = 10.0
# Two movers that begin again at the same time would end each other's moves forever.
_REFUSED_SECONDS: Final = 60.0
_TROUBLE_SECONDS: Final = 4.0
_OUTAGE_SECONDS: Final = 20.0
_TROUBLED_LIVES: Final = 6
_OTHER_LOG_SHARE: Final = 0.5
_KILL_SHARE: Final = 0.5


class Mover(Host):
    """See the module's head.  hosts: all other machines."""

    prefix = PREFIX

    def __init__(self, world: World, number: int, hosts: Sequence[Host]) -> None:
        super().__init__(world, f"mover {number}", 0.0)
        self._number = number
        self._hosts = hosts
        self._nodes = [each for each in hosts if isinstance(each, Node)]
        self._target = f"log 2 of {number}"
        self._targets = 2
        self._lives = 0
        world.when_moved.append(self._on_moved)
        self._troubles: tuple[Callable[[], object], ...] = (
            self.crash,
            self._arm,
            self._kill_one,
            self._kill_all,
        )

    @property
    def is_up(self) -> bool:
        """See Host."""
        return self.coordinator is not None

    def _forget(self) -> None:
        """Do nothing: a mover keeps no state of its process."""

    def _on_moved(self) -> None:
        """Kill a victim now, after the old log is sealed, before the victim opens the new one."""
        self._new_target()
        if self._is_troubled() and self._rng.random() < _KILL_SHARE:
            self._rng.choice((self._kill_one, self._kill_all, self.crash))()

    def _is_troubled(self) -> bool:
        plan = self._world.plan.moves
        return plan.is_harsh and not self._world.healed and self._lives <= _TROUBLED_LIVES

    # -- the command ------------------------------------------------------------------------------

    async def _serve(self, nursery: trio.Nursery) -> None:
        world = self._world
        if len(world.homes) > world.plan.moves.moves:
            await trio.sleep_forever()
        await trio.sleep(self._rng.random() * (_THOUGHT_SECONDS if self._lives else _FIRST_SECONDS))
        if len(world.homes) > world.plan.moves.moves:
            return
        self._lives += 1
        self._restart_those_with_old_settings()
        if self._is_troubled():
            world.nursery.start_soon(self._trouble)
        log, _ = self._open(world.homes[-1])
        state = await load_state(log, deadline_seconds=LOAD_SECONDS)
        check_cluster(state, "")
        assert isinstance(log, MovableLog)
        if log.moves:
            return
        coordinator = Coordinator(log, state, rng=self._rng, wall_clock=self._wall_clock)
        nursery.start_soon(coordinator.run)
        self._watch(coordinator)
        await register_visitor(coordinator, "log-move", rng=self._rng, software_version="0")
        nursery.start_soon(keep_lease, coordinator)
        try:
            await self._move(coordinator, log)
        except* (MoveRefused, LogMisconfigured, ProposalFailed) as refusals:
            self._count("refused")
            must_be_another = refusals.subgroup(LogMisconfigured) is not None
            if self._rng.random() < _OTHER_LOG_SHARE or must_be_another:
                self._new_target()
            await trio.sleep(self._rng.random() * _REFUSED_SECONDS)

    async def _move(self, coordinator: Coordinator, log: MovableLog) -> None:
        plan = MovePlan(
            self._rng.randbytes(8).hex(),
            self._target,
            ready_seconds=self._rng.choice((10.0, 60.0)),
            stall_seconds=self._rng.choice((0.5, 3.0)),
        )
        source = self._open_log(self._world.homes[-1])
        target = self._open_log(self._target)
        self._count("begun")
        await LogMover(coordinator, log, source, target, plan, lambda _: None).run()
        self._count("ended")
        await coordinator.leave()

    def _new_target(self) -> None:
        """Choose another target: the old copy may be too old to continue."""
        self._targets += 1
        self._target = f"log {self._targets} of {self._number}"

    def _restart_those_with_old_settings(self) -> None:
        self._world.next_log = self._target
        for each in self._nodes:
            if each.next_log not in ("", self._target):
                each.crash()

    # -- faults of the mover and of other machines -----------------------------------------------

    async def _trouble(self) -> None:
        await trio.sleep(self._rng.random() * _TROUBLE_SECONDS)
        draw = self._rng.random()
        if draw < 0.6:
            self._rng.choice(self._troubles)()
        elif draw < 0.7:
            self.stall()
            try:
                await trio.sleep(self._rng.random() * _OUTAGE_SECONDS)
            finally:
                self.go_on()  # else an interrupted run never ends
        else:
            await self._log_outage(self._rng.choice((self._world.homes[-1], self._target)))

    def _arm(self) -> None:
        self.crash_point.arm(self._rng.choice(_PLACES), self._rng.randint(1, _MAX_CALLS))

    def _kill_one(self) -> None:
        self._count("killed gateway")
        self._rng.choice(self._nodes).crash(comes_back_fast=True)

    def _kill_all(self) -> None:
        self._count("killed all")
        for each in self._nodes:
            each.crash()

    async def _log_outage(self, url: str) -> None:
        """Make a log unreachable for all machines, or for some."""
        self._count("outage")
        share = self._rng.choice((0.4, 1.0))
        with ExitStack() as outages:
            for each in (*self._hosts, self):
                if self._rng.random() < share:
                    outages.enter_context(each.without_log(url))
            await trio.sleep(self._rng.random() * _OUTAGE_SECONDS)


async def wait_for_moves(world: World) -> None:
    """Wait until the log has made all its moves; forever if it cannot be moved."""
    while len(world.homes) <= world.plan.moves.moves:  # noqa: ASYNC110 - they may die yet
        await trio.sleep(1.0)
