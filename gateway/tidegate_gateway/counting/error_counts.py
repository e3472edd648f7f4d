"""Errors in answers, by API and error code.

Kafka counts each error code in a response: those of its topics, partitions, groups and so on.  A
gateway does the same, but does not count the code of success.  It finds the fields with codes once
for each kind of response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import fields, is_dataclass
from operator import attrgetter
from types import UnionType
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from tidegate_protocol.error_codes import ErrorCode

Result = TypeVar("Result")

_CODES: Final = ("error_code", "partition_error_code")
# The number of elements that are counted in one step; see network/large_requests.py.
ELEMENTS_A_STEP: Final = 100


class _Places(NamedTuple):
    """The fields of a message with error codes.

    code: the message's own field, or "".  arrays: those with inner messages.
    """

    code: str
    arrays: tuple[tuple[str, _Places], ...]


class ErrorCounts:
    """See the module's head.

    by_code: the number of errors in answers, by API key and code.  unanswered: requests without an
    answer, by API key: their outcome was unknown, so the gateway closed their connection.
    """

    def __init__(self) -> None:
        self.by_code: Counter[tuple[int, int]] = Counter()
        self.unanswered: Counter[int] = Counter()

    def note(self, api_key: int, response: Any) -> None:
        """Count the errors of a response."""
        for _ in self._noting(api_key, response):
            pass

    def noted(
        self, api_key: int, response: Any, work: Generator[int, None, Result]
    ) -> Generator[int, None, Result]:
        """Count the errors of a long response in steps, and continue with the work."""
        yield from self._noting(api_key, response)
        return (yield from work)

    def _noting(self, api_key: int, response: Any) -> Iterator[int]:
        places = _places(response.__class__)
        if places is None:
            return
        for at, code in enumerate(_codes(response, places), start=1):
            if code:
                self.by_code[api_key, code] += 1
            if not at % ELEMENTS_A_STEP:
                yield 0


def error_name(code: int) -> str:
    """Return Kafka's name of an error."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"ERROR_{code}"  # the answer of a link's source was forwarded


def _codes(message: Any, places: _Places) -> Iterator[int]:
    """Yield the error code of a message and of all inner messages; 0 if one has no code field."""
    yield getattr(message, places.code) if places.code else 0
    for name, inner in places.arrays:
        elements: Iterable[Any] = getattr(message, name) or ()
        if not inner.arrays:
            yield from map(attrgetter(inner.code), elements)
            continue
        for each in elements:
            yield from _codes(each, inner)


_KNOWN: Final[dict[type[Any], _Places | None]] = {}


def _places(kind: type[Any]) -> _Places | None:
    """Return the places of error codes in a kind of message; None if it has no codes."""
    if kind not in _KNOWN:
        _KNOWN[kind] = _found(kind)
    return _KNOWN[kind]


def _found(kind: type[Any]) -> _Places | None:
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)]
    code = next((each for each in names if each in _CODES), "")
    elements = ((name, _element(hints[name])) for name in names)
    arrays = tuple(
        (name, inner)
        for name, element in elements
        if element is not None and (inner := _places(element)) is not None
    )
    return _Places(code, arrays) if code or arrays else None


def _element(hint: Any) -> type[Any] | None:
    """Return the type of an array's elements if these are messages, otherwise None."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    elements = [get_args(each)[0] for each in kinds if get_origin(each) is list]
    return next((each for each in elements if isinstance(each, type) and is_dataclass(each)), None)
