"""A gateway's replica of the cluster state, which follows the metadata log."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeAlias

from ..events.entries import decode_entry
from ..log.access import GatewayFenced, LogAccess
from ..log.metadata_log import LogEntry, MetadataLog
from ..logs.movable import MovableLog
from ..state.changes import Tables
from ..state.cluster import ClusterState

# After this many reads the loop does its other work.
TAIL_READS: Final = 8

OnChange: TypeAlias = Callable[[set[int]], None]


class Replica:
    """Folds entries into the state, and stops the gateway once its incarnation has ended.

    incarnation: 0 before this gateway is registered.  is_leaving: it ends its incarnation itself.
    """

    def __init__(self, log: MetadataLog, state: ClusterState, access: LogAccess) -> None:
        self.state: Final = state
        self.access: Final = access
        self.incarnation = 0
        self.is_leaving = False
        self._log = log
        self._listeners: list[tuple[Tables, OnChange]] = []

    def listen(self, on_change: OnChange, tables: Tables) -> None:
        """Call on_change with the touched partition numbers after folds that change a table.

        tables: which tables count; see state/changes.py.  Listeners are called in the order of
        registration.  A listener for EVERY_ENTRY adds a call to the cost of each record.
        """
        self._listeners.append((tables, on_change))

    @contextmanager
    def listening(self, on_change: OnChange, tables: Tables) -> Generator[None, None, None]:
        """Listen until the block ends."""
        listener = tables, on_change
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    @property
    def has_left(self) -> bool:
        """Whether this incarnation has ended, so that gateways could not fold its entries.

        It is also true from leave() until the process ends.
        """
        return bool(self.incarnation) and self.incarnation not in self.state.gateways.live

    async def read_tail(self) -> bool:
        """Read and fold up to the log's end; False if TAIL_READS reads did not reach it."""
        for _ in range(TAIL_READS):
            if not await self.read_on():
                return True
        return False

    async def read_on(self) -> bool:
        """Read once and fold; return whether there were new entries."""
        entries = await self.access.read(self.state.position + 1)
        if entries:
            self.fold(entries)
        return bool(entries)

    def fold(self, entries: list[LogEntry]) -> None:
        """Fold entries, and call the listeners.

        Raises:
          GatewayFenced: another gateway ended this incarnation, or the log was moved.
          StateBroken, UnreadableEntry, ReleaseTooOld: see Coordinator.run().
        """
        for each in entries:
            entry = decode_entry(each.payload, each.position, self.state.entry_formats)
            self.state.apply(each.position, entry)
        if self.has_left and not self.is_leaving:
            raise GatewayFenced(f"incarnation {self.incarnation} was ended by another gateway")
        if not isinstance(self._log, MovableLog):
            self._check_not_moved()
        self._tell()

    def _tell(self) -> None:
        """Call the listeners of the changed tables."""
        state = self.state
        touched, changed = set(state.touched), state.changed
        state.touched.clear()
        state.changed = 0
        for tables, on_change in self._listeners:
            if tables & changed:
                on_change(touched)

    def _check_not_moved(self) -> None:
        """Raise GatewayFenced if the log was moved, since nothing may be appended to it then."""
        if self.state.position == self.state.log_moves.sealed_at:
            raise GatewayFenced("its metadata log was moved to another one")
