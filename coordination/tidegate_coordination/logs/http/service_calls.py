"""Helpers of the calls of `service.LogService`: their form, their numbers, their answers."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tidegate_coordination.log.metadata_log import LogMisuse
from tidegate_runtime.http.values import JSON, HttpAnswer

Query = dict[str, str]
Call = Callable[[list[str], Query, bytes], Awaitable[HttpAnswer]]
"""Gets the path's parts after its first word, the query, and the body."""

_MAX_DIGITS: Final = 18  # so that a number fits in 63 bits


def number(text: str | None, name: str) -> int:
    """Read a number of a path or query.

    Raises:
        LogMisuse: it is missing, or no number.
    """
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise LogMisuse(f"{name} is a number of up to {_MAX_DIGITS} digits")
    return int(text)


def said(status: int, sentence: str) -> HttpAnswer:
    """An answer for a person; its status is for the caller."""
    return HttpAnswer(status, f"{sentence}\n".encode())


def json_answer(status: int, value: Mapping[str, object]) -> HttpAnswer:
    return HttpAnswer(status, json.dumps(value).encode() + b"\n", JSON)
