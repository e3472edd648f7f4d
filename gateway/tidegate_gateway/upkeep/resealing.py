"""Seals the SCRAM credentials that are plain, or sealed with a former key, once after the start.

Not again and again: while keys are being replaced, gateways with different ones would undo each
other's work.  The last gateway that starts with the new key leaves all credentials sealed with it.
"""

from __future__ import annotations

from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import SEALS
from tidegate_coordination.rules.parts import parts
from tidegate_coordination.rules.scram import Resealing, SealScramCredentials, size_bytes
from tidegate_coordination.state.scram import KeptCredential, fingerprint

from ..security.sasl.scram import CannotOpen
from ..security.sealing import Sealing

_log = structlog.get_logger("tidegate.sealing")


class Resealer:
    """See the module's head; for a gateway that seals."""

    def __init__(self, coordinator: Coordinator, sealing: Sealing) -> None:
        self._coordinator: Final = coordinator
        self._sealing: Final = sealing
        self._is_done = False
        self._may_seal = trio.Event()
        coordinator.listen(self._look)
        self._look(set())

    def _look(self, _touched: set[int]) -> None:
        if self._coordinator.state.metadata_version >= SEALS:
            self._may_seal.set()

    async def run(self) -> None:
        """Wait until the cluster allows it, seal once, and then rest."""
        await self._may_seal.wait()
        if not self._is_done:
            await self._seal()
            self._is_done = True
        await trio.sleep_forever()

    async def _seal(self) -> None:
        await self._coordinator.catch_up()
        kept = list(self._coordinator.state.scram)
        changes = [change for each in kept if (change := self._change_of(each)) is not None]
        count = 0
        for part in parts(changes, lambda each: size_bytes(each.after)):
            count += await self._coordinator.propose(SealScramCredentials(part))
        if count:
            _log.info("SCRAM credentials were sealed with metadata.secret.key", count=count)

    def _change_of(self, kept: KeptCredential) -> Resealing | None:
        if self._sealing.is_current(kept):
            return None
        try:
            opened = self._sealing.opened(kept)
        except CannotOpen as error:
            _log.warning("a SCRAM credential stays as it is", user=kept.user, why=str(error))
            return None
        return Resealing(fingerprint(kept), self._sealing.sealed(opened))
