"""Which errors are a person's to mend: one sentence on stderr instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import trio

from tidegate_coordination.configs.validation import InvalidConfig
from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable, ProposalFailed
from tidegate_coordination.events.entries import UnreadableEntry
from tidegate_coordination.events.metadata_versions import ReleaseTooOld
from tidegate_coordination.forwarding.hooks import HookUnusable
from tidegate_coordination.log.access import GatewayFenced
from tidegate_coordination.log.metadata_log import LogCorrupt, LogMisconfigured, LogUnavailable
from tidegate_coordination.log_move.mover import MoveRefused
from tidegate_coordination.state.broken import StateBroken
from tidegate_runtime.listening import CannotListen
from tidegate_runtime.settings_texts import BadSource, SettingsError
from tidegate_storage.stores.object_store import StoreMisconfigured, StoreUnavailable

from .instance import DataFolderUnusable
from .peers.answering import GatewaysRun
from .produce.wal_writer import KeyTaken
from .startup import NodeIdInUse

MENDABLE: Final = (
    BadSource,
    CannotListen,
    DataFolderUnusable,
    GatewaysRun,
    HookUnusable,
    InvalidConfig,
    KeyTaken,
    MoveRefused,
    NodeIdInUse,
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


def sentence_of(error: BaseException) -> str | None:
    """Return what to tell a person; None for a bug, which deserves its traceback.

    Of a group the first is told, if all of it is a person's to mend.
    """
    sentences = [_sentence(each) for each in _leaves(error)]
    return sentences[0] if all(each is not None for each in sentences) else None


def first_of(error: BaseException) -> BaseException:
    """Return the error that sentence_of() tells."""
    return next(_leaves(error))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(each)
    else:
        yield error


def _sentence(error: BaseException) -> str | None:
    if isinstance(error, MENDABLE):
        return str(error)
    if isinstance(error, trio.TooSlowError):
        return "the metadata log could not be loaded in time"
    for kind, prefix in _PREFIXES:
        if isinstance(error, kind):
            return prefix + str(error)
    return None
