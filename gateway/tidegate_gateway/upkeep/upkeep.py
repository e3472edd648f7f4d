"""Steps of upkeep, which a gateway repeats: a step that fails ends nothing but itself.

One topic's bad settings, or one missing object, must end neither the gateway nor the other steps of
the same round.  So a step that fails is counted by its name, logged, and repeated a round later.
An error of a log or a store that does not answer is one log line; any other error was not foreseen,
and is logged with its traceback.

The errors of MUST_STOP say that this gateway must not go on: they always pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, TypeGuard

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable, ProposalFailed
from tidegate_coordination.events.entries import UnreadableEntry
from tidegate_coordination.events.metadata_versions import ReleaseTooOld
from tidegate_coordination.log.access import GatewayFenced
from tidegate_coordination.log.metadata_log import LogCorrupt, LogMisconfigured, LogUnavailable
from tidegate_coordination.state.broken import StateBroken
from tidegate_storage.objects.ownership import TimelineOver
from tidegate_storage.stores.object_store import StoreMisconfigured, StoreUnavailable

_log = structlog.get_logger("tidegate.upkeep")

AGAIN_SECONDS: Final = 1.0
MUST_STOP: Final = (
    GatewayFenced,
    LogCorrupt,
    LogMisconfigured,
    ReleaseTooOld,
    StateBroken,
    TimelineOver,
    UnreadableEntry,
)
"""Log and gateway do not agree, or another gateway is in charge: going on may do harm."""
FORESEEN: Final = (
    CoordinatorUnavailable,
    LogUnavailable,
    ProposalFailed,
    StoreMisconfigured,
    StoreUnavailable,
)


class Upkeep:
    """See the module's head.  failures: of steps, by what they do; for metrics."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()

    async def attempt(self, what: str, step: Callable[[], Awaitable[object]], **about: str) -> bool:
        """Do a step that a later round repeats; tell if it came to its end.

        what: completes "could not ...".  about: whose step it is, for the log.

        Raises:
          one of MUST_STOP.
        """
        try:
            await step()
        except Exception as error:
            self.note(what, error, **about)
            return False
        return True

    async def keep_running(self, what: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run what never ends, and again where it did; forever."""
        while True:
            await self.attempt(what, run)
            await trio.sleep(AGAIN_SECONDS)

    def note(self, what: str, error: Exception, **about: str) -> None:
        """Count and tell of a step that failed; raise the error where it says to stop."""
        if _any_leaf(error, MUST_STOP):
            raise error
        self.failures[what] += 1
        if isinstance(error, FORESEEN):
            _log.warning(f"could not {what}; trying again later", error=str(error), **about)
        else:
            _log.error(f"could not {what}; trying again later", exc_info=error, **about)


def _any_leaf(error: BaseException, kinds: tuple[type[Exception], ...]) -> bool:
    if _is_group(error):
        return any(_any_leaf(each, kinds) for each in error.exceptions)
    return isinstance(error, kinds)


def _is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    return isinstance(error, BaseExceptionGroup)
