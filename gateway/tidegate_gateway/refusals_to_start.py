"""Errors that an operator must fix: a command prints a sentence on stderr, not a traceback."""

from __future__ import annotations

from tidegate_coordination import refusals

from .instance import DataFolderUnusable
from .peers.answering import GatewaysRun
from .startup import NodeIdInUse
from .upkeep.key_taken import KeyTaken


def sentence_of(error: BaseException) -> str | None:
    """Return the sentence to print; None for a bug, which needs its traceback."""
    return refusals.sentence_of(error, DataFolderUnusable, GatewaysRun, KeyTaken, NodeIdInUse)
