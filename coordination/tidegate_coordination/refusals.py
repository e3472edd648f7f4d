"""Errors that a person can fix, as sentences.

All other errors are bugs, and keep their traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import trio

from tidegate_runtime.listening import CannotListen
from tidegate_runtime.settings_texts import BadSource, SettingsError
from tidegate_storage.stores.object_store import StoreMisconfigured, StoreUnavailable

from .configs.validation import InvalidConfig
from .coordinator.coordinator import CoordinatorUnavailable, ProposalFailed
from .events.entries import UnreadableEntry
from .events.metadata_versions import ReleaseTooOld
from .forwarding.hooks import HookUnusable
from .log.access import GatewayFenced
from .log.metadata_log import LogCorrupt, LogMisconfigured, LogUnavailable
from .log_move.mover import MoveRefused
from .state.broken import StateBroken

MENDABLE: Final = (
    BadSource,
    CannotListen,
    HookUnusable,
    InvalidConfig,
    MoveRefused,
    ReleaseTooOld,
    SettingsError,
)
"""Their texts stand for themselves."""

_PREFIXES: Final = (
    (StoreMisconfigured, "the object store cannot be used: "),
    (StoreUnavailable, "the object store does not answer: "),
    (LogMisconfigured, "the metadata log cannot be used: "),
    (LogUnavailable, "the metadata log does not answer: "),
    (CoordinatorUnavailable, "the metadata log does not answer: "),
    (ProposalFailed, "the metadata log takes nothing from this gateway: "),
    (LogCorrupt, "the metadata log is damaged, so this gateway stops: "),
    (UnreadableEntry, "the metadata log holds what this release cannot read: "),
    (StateBroken, "metadata log and state do not agree, so this gateway stops: "),
    (GatewayFenced, "this gateway cannot go on; start it again: "),
)


def sentence_of(error: BaseException, *more: type[BaseException]) -> str | None:
    """Return the message to the operator; None for a bug.  more: errors whose texts are used
    unchanged.

    For a group, return the sentence of its first error, if a person can fix all errors in it.
    """
    sentences = [_sentence(each, more) for each in leaves(error)]
    return sentences[0] if all(each is not None for each in sentences) else None


def first_of(error: BaseException) -> BaseException:
    """Return the error whose sentence sentence_of() returns."""
    return next(leaves(error))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors in a group; the error itself if it is no group."""
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(each)
    else:
        yield error


def _sentence(error: BaseException, more: tuple[type[BaseException], ...]) -> str | None:
    if isinstance(error, (*MENDABLE, *more)):
        return str(error)
    if isinstance(error, trio.TooSlowError):
        return "the metadata log could not be loaded in time"
    for kind, prefix in _PREFIXES:
        if isinstance(error, kind):
            return prefix + str(error)
    return None
