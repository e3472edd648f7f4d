"""Steps that nobody asked for, and that are repeated: one that fails ends nothing but itself.

What one topic's settings hold, or one object lacks, must not end the gateway, nor what else there
is to do in the same round.  So a step that fails is counted by its name, told of, and done again
in its next round.  What a log or a store says when it does not answer is a line; anything else was
not foreseen, and comes with its traceback.

Some errors say that this gateway must not go on: they are never held up here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, TypeGuard

import structlog
import trio

from tidegate_coordination.coordinator import CoordinatorUnavailable, ProposalFailed
from tidegate_coordination.entries import UnreadableEntry
from tidegate_coordination.log_access import GatewayFenced
from tidegate_coordination.metadata_log import LogCorrupt, LogMisconfigured, LogUnavailable
from tidegate_coordination.metadata_versions import ReleaseTooOld
from tidegate_coordination.state.broken import StateBroken
from tidegate_storage.object_store import StoreMisconfigured, StoreUnavailable
from tidegate_storage.ownership import TimelineOver

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
"""Log and gateway do not agree, or others are in charge: who goes on may do harm."""
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
