"""Seals plain SCRAM credentials, and once after the start credentials sealed with a former key.

If a credential comes that is sealed with a key that this gateway lacks, the gateway logs an error:
another gateway or command has a wrong key, and this gateway could not start again.

It seals credentials of a former key again only once after its start.  Otherwise, while keys are
being replaced, gateways with different keys would undo each other's work.  Once the last gateway
has started with the new key, all credentials are sealed with it.  Plain credentials come from
gateways and commands without a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import SEALS
from tidegate_coordination.rules.security.parts import parts
from tidegate_coordination.rules.security.scram import Resealing, SealScramCredentials, size_bytes
from tidegate_coordination.state.changes import CLUSTER, SCRAM
from tidegate_coordination.state.security.scram import (
    KeptCredential,
    ScramCredential,
    SealedCredential,
    fingerprint,
)

from ..security.sasl.scram import CannotOpen
from ..security.sealing import Sealing, missing_key_text

ROWS_A_TURN: Final = 100
"""So many users are read, and so many credentials sealed, in a few milliseconds."""

_log = structlog.get_logger("tidegate.sealing")


class Resealer:
    """See the module's head.  Without a key it only looks for missing keys."""

    def __init__(self, coordinator: Coordinator, sealing: Sealing) -> None:
        self._coordinator: Final = coordinator
        self._sealing: Final = sealing
        self._is_done = False
        self._as_of = -1  # the version of the table that was sealed last
        # credentials that the log line about missing keys has named
        self._closed: set[SealedCredential] = set()
        self._changed = trio.Event()
        coordinator.listen(self._look, SCRAM | CLUSTER)

    def _look(self, _touched: set[int]) -> None:
        state = self._coordinator.state
        if state.metadata_version >= SEALS and state.scram.version != self._as_of:
            self._changed.set()

    async def run(self) -> None:
        """Seal as soon as the cluster allows it, and whenever plain credentials come; forever."""
        while True:
            self._look(set())
            await self._changed.wait()
            self._changed = trio.Event()
            if self._sealing.seals:
                await self._coordinator.catch_up()
            # If a row changes from now on, the version rises, and the loop looks again.
            version = self._coordinator.state.scram.version
            rows, closed = await self._read()
            self._tell_of_missing_keys(closed)
            if self._sealing.seals:
                await self._seal(rows)
            self._as_of, self._is_done = version, True

    async def _read(self) -> tuple[list[KeptCredential], set[SealedCredential]]:
        """Return all credentials, and the sealed credentials whose key this gateway lacks."""
        table = self._coordinator.state.scram
        rows: list[KeptCredential] = []
        closed: set[SealedCredential] = set()
        for at, user in enumerate(table.copied_users(), start=1):
            found = table.of_user(user)
            rows += found
            closed.update(self._sealing.missing(found))
            if not at % ROWS_A_TURN:
                await trio.lowlevel.checkpoint()
        return rows, closed

    def _tell_of_missing_keys(self, closed: set[SealedCredential]) -> None:
        if new := closed - self._closed:
            in_order = sorted(new, key=lambda each: each.user)
            _log.error(missing_key_text(in_order), count=len(closed))
        self._closed = closed

    async def _seal(self, rows: Sequence[KeptCredential]) -> None:
        count = 0
        changes = await self._changes(rows)
        for part in parts(changes, lambda each: size_bytes(each.after)):
            count += await self._coordinator.propose(SealScramCredentials(part))
        if count:
            _log.info("SCRAM credentials were sealed with metadata.secret.key", count=count)

    async def _changes(self, rows: Sequence[KeptCredential]) -> list[Resealing]:
        changes: list[Resealing] = []
        for at, each in enumerate(rows, start=1):
            if self._concerns(each) and (change := self._change_of(each)) is not None:
                changes.append(change)
            if not at % ROWS_A_TURN:
                await trio.lowlevel.checkpoint()
        return changes

    def _concerns(self, kept: KeptCredential) -> bool:
        return not self._is_done or isinstance(kept, ScramCredential)

    def _change_of(self, kept: KeptCredential) -> Resealing | None:
        if self._sealing.is_current(kept) or self._sealing.missing([kept]):
            return None
        try:
            opened = self._sealing.opened(kept)
        except CannotOpen as error:
            _log.warning("a SCRAM credential stays as it is", user=kept.user, why=str(error))
            return None
        return Resealing(fingerprint(kept), self._sealing.sealed(opened))
