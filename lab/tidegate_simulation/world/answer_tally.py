"""Answers that clients got from one incarnation of a gateway, against its own counts.

A gateway counts an answer before it sends the answer.  So its counts are at least those of its
clients, and higher if connections broke.  It has read a request for each answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from tidegate_gateway.gateway import Gateway
from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.error_codes import ErrorCode


class AnswerTally:
    """The answers of one incarnation, as its clients counted them."""

    def __init__(self) -> None:
        self._answers: Counter[int] = Counter()
        self._errors: Counter[tuple[int, int]] = Counter()

    def note(self, api_key: int, response: Any) -> None:
        """Count an answer that a client got."""
        self._answers[api_key] += 1
        for code in _codes(response):
            self._errors[api_key, code] += 1

    def disagreements(self, gateway: Gateway) -> Iterator[str]:
        """Yield the errors that the gateway has counted too rarely or too often."""
        counters = gateway.counters
        for (api_key, code), seen in sorted(self._errors.items()):
            counted = counters.errors.by_code[api_key, code]
            if counted < seen:
                error = ErrorCode(code).name
                yield f"{APIS[api_key].name}: {seen} clients got {error}, {counted} counted"
        for api_key, seen in sorted(self._answers.items()):
            counted, requests = _answered(gateway, api_key), counters.requests[api_key]
            if not seen <= counted <= requests:
                name = APIS[api_key].name
                yield f"{name}: {seen} answers, {counted} counted of {requests} requests"


def _answered(gateway: Gateway, api_key: int) -> int:
    if api_key == ApiKey.PRODUCE:
        return gateway.writes.writer.counters.times.total.count
    return gateway.counters.times[api_key].total.count


def _codes(message: Any) -> Iterator[int]:
    """Yield all error codes of a message but those of success."""
    for field in fields(message):
        value: Any = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code") and value:
            yield value
        elif _is_array(value):
            yield from (code for each in value if is_dataclass(each) for code in _codes(each))


def _is_array(value: object) -> bool:
    return isinstance(value, list)
