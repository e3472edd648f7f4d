"""Runs the steps of upkeep, which a gateway repeats; if one step fails, the others still run.

One topic's bad settings, or one missing object, must end neither the gateway nor the other steps of
the same round.  So a failed step is counted by its name, logged, and repeated a round later.  If
the log or the store does not answer, the error is one log line.

Any other error is unexpected, and is logged with its traceback.  The errors of MUST_STOP mean that
this gateway must stop; they are always raised.
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

from .key_taken import KeyTaken

_log = structlog.get_logger("tidegate.upkeep")

AGAIN_SECONDS: Final = 1.0
MUST_STOP: Final = (
    GatewayFenced,
    KeyTaken,
    LogCorrupt,
    LogMisconfigured,
    ReleaseTooOld,
    StateBroken,
    TimelineOver,
    UnreadableEntry,
)
"""Log and gateway do not agree, or this gateway is fenced: to continue may do harm."""
FORESEEN: Final = (
    CoordinatorUnavailable,
    LogUnavailable,
    ProposalFailed,
    StoreMisconfigured,
    StoreUnavailable,
)


class Upkeep:
    """Runs steps; see the module's head.  failures: the number of failures by step, for metrics."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()

    async def attempt(self, what: str, step: Callable[[], Awaitable[object]], **about: str) -> bool:
        """Run a step that a later round repeats; return whether it succeeded.

        what: completes "could not ...".  about: fields for the log line, such as the topic.

        Raises:
          Exception: one of MUST_STOP.
        """
        try:
            await step()
        except Exception as error:
            self.note(what, error, **about)
            return False
        return True

    async def keep_running(self, what: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a step that should never end, and run it again whenever it ends; forever."""
        while True:
            await self.attempt(what, run)
            await trio.sleep(AGAIN_SECONDS)

    def note(self, what: str, error: Exception, **about: str) -> None:
        """Count and log a failed step; raise the error if it is one of MUST_STOP."""
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
