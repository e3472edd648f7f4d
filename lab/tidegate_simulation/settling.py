"""The end of a run, after all faults: waits for work that must finish, and the final reads.

Each wait ends after CALM_SECONDS; work that is not done by then is a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio

from tidegate_pipeline.planning.plan import backlog

from .clients.final_readers import FinalReader, MakeReader, read_to_the_end
from .clients.offsets_readers import OffsetsReader
from .clients.workload import Workload
from .mirrors.linker import incomplete, wait_for_copies
from .mirrors.mirror_readers import MirrorReader
from .mirrors.source import Source
from .mirrors.transaction_clients import UnitReader
from .nemesis.movers import wait_for_moves
from .nemesis.operators import wait_for_repair
from .probers.collection import leaks, wait_for_collection
from .transactions.committed_readers import FinalCommittedReader
from .transactions.last_phase import finish_transactions
from .world.host import Host
from .world.node import Node
from .world.pipelines import Pipeline, merge_what_rests
from .world.world import World

# Virtual seconds.
CALM_SECONDS: Final = 240.0


class Settling:
    """See the module's head.  note: adds a violation, by its kind and text."""

    def __init__(
        self, world: World, source: Source | None, note: Callable[[str, str], None]
    ) -> None:
        self._world = world
        self._plan = world.plan
        self._source = source
        self._note = note

    async def merge_all(self, pipelines: list[Pipeline]) -> None:
        """Wait until the pipelines have merged all runs, so that final readers read segments."""
        if not pipelines:
            return
        with trio.move_on_after(CALM_SECONDS) as waited:
            await merge_what_rests(self._world, pipelines)
        if waited.cancelled_caught:
            runs, size_bytes = backlog(self._world.watch.state)
            self._note("not merged", f"{runs} runs, {size_bytes} bytes after {CALM_SECONDS} s")

    async def await_collection(self) -> None:
        """Wait until dead objects are deleted.

        With wrong clocks, return at once: perhaps no gateway deletes any.
        """
        if self._plan.has_wrong_clocks:
            return
        with trio.move_on_after(CALM_SECONDS) as waited:
            await wait_for_collection(self._world)
        if waited.cancelled_caught:
            self._note("not collected", f"{leaks(self._world)} objects after {CALM_SECONDS} s")

    async def await_nodes(self, nodes: list[Node]) -> None:
        """Wait until every gateway has come back without an operator."""
        with trio.move_on_after(CALM_SECONDS):
            while any(each.gateway is None for each in nodes):  # noqa: ASYNC110 - they may die yet
                await trio.sleep(1.0)
        down = [each.node_id for each in nodes if each.gateway is None]
        if down:
            self._note("stuck", f"gateways {down} did not come back in {CALM_SECONDS} s")

    async def await_repair(self) -> None:
        """Wait until operators have skipped all lost runs, so that readers can continue."""
        with trio.move_on_after(CALM_SECONDS) as waited:
            await wait_for_repair(self._world)
        if waited.cancelled_caught:
            self._note("not repaired", f"after {CALM_SECONDS} s")

    async def await_moves(self) -> None:
        """Wait until the movers, which repeat their command, have moved the log."""
        with trio.move_on_after(CALM_SECONDS) as waited:
            await wait_for_moves(self._world)
        if waited.cancelled_caught:
            moves = self._plan.moves.moves
            self._note(
                "not moved", f"{len(self._world.homes) - 1} of {moves} after {CALM_SECONDS} s"
            )

    async def await_small_writes(self) -> None:
        """Wait until the store has all batches that are now in the metadata log only."""
        inlined = self._world.watch.state.objects.inlined
        waiting = set(inlined)
        with trio.move_on_after(CALM_SECONDS) as waited:
            while not waiting.isdisjoint(inlined):  # noqa: ASYNC110 - gateways have no event for it
                await trio.sleep(1.0)
        if waited.cancelled_caught:
            left = sorted(waiting.intersection(inlined))
            self._note("left in the log", f"objects {left} after {CALM_SECONDS} s")

    async def await_copies(self) -> None:
        """Wait until the gateways have mirrored all records of the source."""
        source = self._source
        if source is None:
            return
        with trio.move_on_after(CALM_SECONDS) as waited:
            await wait_for_copies(self._world, source)
        if waited.cancelled_caught:
            text = "; ".join(incomplete(self._world.watch.state, source))
            self._note("not mirrored", f"after {CALM_SECONDS} s: {text}")

    async def read_all(self, workload: Workload, hosts: Sequence[Host]) -> None:
        """Read all keys: all acknowledged records must be readable once all faults are over."""
        kinds: list[MakeReader] = [FinalReader]
        if self._plan.transactions.is_on:
            kinds.append(FinalCommittedReader)
            with trio.move_on_after(CALM_SECONDS) as waited:
                await finish_transactions(workload)
            if waited.cancelled_caught:
                self._note("stuck", f"transactions did not finish in {CALM_SECONDS} s")
        if self._source is not None:
            with trio.move_on_after(CALM_SECONDS) as waited:
                await MirrorReader(workload, "last of mirrors", self._source).read_all()
                if self._plan.links.transactions:
                    await UnitReader(workload, self._source).judge()
            if waited.cancelled_caught:
                self._note("stuck", f"copies were not read in {CALM_SECONDS} s")
        if not await read_to_the_end(workload, CALM_SECONDS, kinds):
            self._note("stuck", f"the last readers got nothing for {CALM_SECONDS} s")
        await self._read_offsets(workload)
        watch = self._world.watch
        for name in watch.missing_objects():
            self._note("not stored", f"{name} holds live records and is gone")
        for host in hosts:
            if host.coordinator is not None:
                watch.replays.compare(host.name, host.coordinator.state)
        watch.replays.replay_all()

    async def _read_offsets(self, workload: Workload) -> None:
        """Check that the last record of each key of `__consumer_offsets` has the group's value."""
        with trio.move_on_after(CALM_SECONDS) as waited:
            await OffsetsReader(workload, "last of offsets").read_all()
        if waited.cancelled_caught:
            self._note("stuck", f"group offsets were not read in {CALM_SECONDS} s")
