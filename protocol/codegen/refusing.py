"""Emits the function `refused`: it makes the response to a request that is refused as a whole.

One error code counts for the whole request, or for each of its entries.  In versions with a field
for it, the error stands at the head of the response.  In other versions the response has an entry
with the error for each entry of the request.  Two arrays match if they have the same name, or if
the request has only one.  An entry gets the fields that the request's entry has, too.  An API has
no such function if its arrays do not match, or if its refusals have nulls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from .schema import NONE, Field, Message, SchemaFile, Versions
from .text import Regime, may_be_null, type_name

# Fields that are -1 in refusals, for "no value", although -1 is not their default.
_ABSENT = {
    "InitProducerIdResponse": ("producer_epoch",),
    "FindCoordinatorResponse": ("node_id", "port"),
    "Coordinator": ("node_id", "port"),
    "DeleteRecordsPartitionResult": ("low_watermark",),
    "OffsetFetchResponsePartition": ("committed_offset",),
    "PartitionProduceResponse": ("base_offset",),
}
# Refusals by these responses have a null where other answers have a list or a name.
_WITH_NULLS = frozenset({"DescribeClientQuotasResponse", "JoinGroupResponse"})
_CODE = "error_code"
_TEXT = "error_message"


class NoMatchError(Exception):
    """The entries of the response do not match those of the request."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """An array of the response, and the expression that fills it in some versions."""

    name: str
    versions: Versions
    expression: str


def emit_refusal(schema: SchemaFile) -> list[str]:
    """Return the lines of `refused`.

    Return none if it is no API, if its refusals have nulls, or if entries do not match.
    """
    if schema.key is None:
        return []
    request, response = schema.messages
    if response.name in _WITH_NULLS:
        return []
    head = next((each.versions for each in response.fields if each.name == _CODE), NONE)
    filled: list[_Filled] = []
    try:
        for versions in _without(response.versions, head):
            filled += _filled(response.fields, request.fields, "request", versions)
    except NoMatchError:
        return []
    return [
        "",
        "",
        f"def refused(request: {request.name}, version: int, error_code: int,"
        f" error_message: str | None = None) -> {response.name}:",
        '    """Answer a request with one error code, at the head or at each of its entries."""',
        *_body(response, head, filled),
    ]


def _body(response: Message, head: Versions, filled: list[_Filled]) -> list[str]:
    whole = Regime(response.versions, flexible=False)
    found = [f"    response = {response.name}()"]
    if head:
        texts = [each for each in response.fields if each.name == _TEXT]
        lines = ["response.error_code = error_code"]
        lines += [f"response.error_message = {_text(each)}" for each in texts]
        lines += [f"response.{each} = -1" for each in _ABSENT.get(response.name, ())]
        found += _under(whole.condition(head), lines)
    for each in filled:
        line = f"response.{each.name} = {each.expression}"
        found += _under(whole.condition(each.versions), [line])
    return [*found, "    return response"]


def _under(condition: str | None, lines: list[str]) -> list[str]:
    if condition is None:
        return [f"    {each}" for each in lines]
    return [f"    if {condition}:", *(f"        {each}" for each in lines)]


def _without(versions: Versions, head: Versions) -> list[Versions]:
    """Return the versions without an error code at the head."""
    if not head:
        return [versions]
    found = Versions(versions.low, head.low - 1), Versions(head.high + 1, versions.high)
    return [each for each in found if each]


def _filled(
    answers: list[Field], asked: list[Field], source: str, versions: Versions
) -> list[_Filled]:
    """Return the arrays of a struct that hold errors, filled in `versions` from a request."""
    found: list[_Filled] = []
    for each in answers:
        wanted = each.versions & versions
        if wanted and each.is_array and each.is_struct and _holds_code(each):
            for array in _matching(each, asked, wanted):
                entries = _entries(each, array, source)
                found.append(_Filled(each.name, wanted & array.versions, entries))
    return found


def _matching(answer: Field, asked: list[Field], versions: Versions) -> list[Field]:
    """Return the arrays of a request whose entries an array of the answer repeats."""
    arrays = [each for each in asked if each.is_array and each.versions & versions]
    same = [each for each in arrays if each.name == answer.name]
    if same:
        return same
    if not arrays or any(one.versions & other.versions for one, other in pairwise(arrays)):
        raise NoMatchError
    return arrays


def _entries(answer: Field, array: Field, source: str) -> str:
    item = {"request": "each", "each": "inner"}.get(source, "innermost")
    values = _values(answer, array, item)
    if not re.search(rf"\b{item}\b", ", ".join(values)):
        item = "_"
    within = f"{source}.{array.name}" + (" or ()" if may_be_null(array) else "")
    return f"[{answer.type}({', '.join(values)}) for {item} in {within}]"


def _values(answer: Field, array: Field, item: str) -> list[str]:
    """Return the arguments of an entry of the response."""
    code = _code_of(answer.fields)
    values = [f"{code.name}=error_code"] if code is not None else []
    values += [f"{each.name}={_text(each)}" for each in answer.fields if each.name == _TEXT]
    copied = _copied(answer, array, item)
    keys = [each for each in answer.fields if _is_key(each)]
    if keys and not (copied and copied[0].startswith(f"{keys[0].name}=")):
        raise NoMatchError
    values += [f"{each}=-1" for each in _ABSENT.get(answer.type, ())]
    if code is None:
        inner = _filled(answer.fields, array.fields, item, answer.versions)
        if not inner:
            raise NoMatchError
        values += [f"{each.name}={each.expression}" for each in inner]
    return [*copied, *values]


def _copied(answer: Field, array: Field, item: str) -> list[str]:
    if not array.is_struct:
        keys = [each for each in answer.fields if _is_key(each) and each.type == array.type]
        return [f"{keys[0].name}={item}"] if keys else []
    found: list[str] = []
    for each in answer.fields:
        same = next((one for one in array.fields if one.name == each.name), None)
        if same is None or same.is_array != each.is_array:
            continue
        if _is_key(each) and _type(each) == _type(same):
            found.append(f"{each.name}={item}.{each.name}")
        elif _is_part(each) and same.is_struct:
            parts = ", ".join(f"{part.name}=part.{part.name}" for part in each.fields)
            found.append(f"{each.name}=[{each.type}({parts}) for part in {item}.{each.name}]")
    return found


def _is_part(each: Field) -> bool:
    """Return whether a field of a response's entry is a list that is part of the entry's key."""
    return each.is_array and each.is_struct and not (may_be_null(each) or _holds_code(each))


def _type(each: Field) -> str:
    return type_name(each, request=False)


def _is_key(each: Field) -> bool:
    """Return whether a field of a response's entry identifies the entry."""
    is_error = each.name == _TEXT or each.name.endswith(_CODE)
    return not (each.is_array or each.is_struct or is_error or each.default or each.tag is not None)


def _code_of(fields: list[Field]) -> Field | None:
    codes = [each for each in fields if each.name.endswith(_CODE) and each.tag is None]
    return codes[0] if codes else None


def _holds_code(each: Field) -> bool:
    return _code_of(each.fields) is not None or any(map(_holds_code, each.fields))


def _text(each: Field) -> str:
    return _TEXT if may_be_null(each) else f'{_TEXT} or ""'
