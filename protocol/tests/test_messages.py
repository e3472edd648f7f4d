"""Every message and every served version: against itself, against kio, and against hostile bytes.

Values are made from the schema, so a new API is covered as soon as it is generated.
"""

from __future__ import annotations

import datetime
import enum
import importlib
import io
import uuid
from collections.abc import Generator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from codegen.schema import FIXED, Field, Message, SchemaFile, Versions, read_schema, snake_case
from tidegate_protocol.errors import RemoteProtocolError

SCHEMA = Path(__file__).parents[1] / "schema"
INTEGER_BYTES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}
KIO_DATES = frozenset(
    {
        *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"),
        *("issue_timestamp", "expiry_timestamp", "max_timestamp"),
    }
)
FIRST_OWN_TAG = 10_000  # see OWN_FIELDS in extract.py; kio does not know these
KIO_ERROR_CODES = (0, 1, 3, 6, 35, 87, 100)

QUICK = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Case:
    """One message in one version."""

    module: ModuleType
    schema: SchemaFile
    message: Message
    version: int

    def __str__(self) -> str:
        return f"{self.message.name}-{self.version}"

    def decode(self, data: bytes) -> Any:
        return self._door("decode")(memoryview(data), self.version)

    def encode(self, value: Any) -> bytes:
        written = self._door("encode")(value, self.version)
        return b"".join(written) if isinstance(written, list) else bytes(written)

    def _door(self, direction: str) -> Any:
        kind = "" if self.message.kind == "data" else "_" + self.message.kind
        return getattr(self.module, direction + kind)


def _cases() -> list[Case]:
    cases = []
    for path in sorted(SCHEMA.glob("*.txt")):
        schema = read_schema(path)
        for message in schema.messages:
            if message.kind != "header":
                name = f"tidegate_protocol.messages.{snake_case(schema.name)}"
                module = importlib.import_module(name)
                versions = range(message.versions.low, message.versions.high + 1)
                cases += [Case(module, schema, message, version) for version in versions]
    return cases


CASES = _cases()
NEWEST = [case for case in CASES if case.version == case.message.versions.high]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


def present(each: Field, version: int) -> bool:
    return bool(each.versions & Versions(version, version))


def is_own(each: Field) -> bool:
    return each.tag is not None and each.tag >= FIRST_OWN_TAG


def nullable(each: Field, version: int) -> bool:
    return each.type == "records" or bool(each.nullable & Versions(version, version))


def values(case: Case, *, for_kio: bool = False) -> st.SearchStrategy[Any]:
    return _struct(case, case.message.name, case.message.fields, for_kio)


def _struct(case: Case, name: str, members: list[Field], for_kio: bool) -> st.SearchStrategy[Any]:
    here = [each for each in members if present(each, case.version)]
    here = [each for each in here if not (for_kio and is_own(each))]
    parts = {each.name: _member(case, each, for_kio) for each in here}
    return st.builds(getattr(case.module, name), **parts)


def _member(case: Case, each: Field, for_kio: bool) -> st.SearchStrategy[Any]:
    one = _scalar(case, each, for_kio)
    if each.is_array:
        one = st.lists(one, max_size=3)
    tagged_struct = each.is_struct and not each.is_array and each.tag is not None
    if nullable(each, case.version) or tagged_struct:
        return st.none() | one
    return one


def _scalar(case: Case, each: Field, for_kio: bool) -> st.SearchStrategy[Any]:
    if each.is_struct:
        return _struct(case, each.type, each.fields, for_kio)
    if for_kio and each.name.endswith("error_code"):
        return st.sampled_from(KIO_ERROR_CODES)
    if for_kio and each.type == "int64":
        # kio makes dates of some fields, and accepts -1 only if the schema has -1 as default.
        return st.integers(0 if each.name in KIO_DATES else -1, 2**41)
    if each.type in INTEGER_BYTES:
        half = 1 << INTEGER_BYTES[each.type] * 8 - 1
        return st.integers(-half, half - 1)
    others: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "string": st.text(max_size=5) | st.just("x" * 200),
        "bytes": st.binary(max_size=5) | st.just(b"y" * 200),
        "records": st.binary(max_size=5) | st.just(b"z" * 200),
        "uuid": st.binary(min_size=16, max_size=16),
        "uint16": st.integers(0, 2**16 - 1),
        "float64": st.floats(allow_nan=False),
    }
    return others[each.type]


@each_case
def test_written_messages_are_read_back(case: Case) -> None:
    @QUICK
    @given(values(case))
    def check(value: Any) -> None:
        raw = case.encode(value)
        assert case.decode(raw) == value
        assert case.decode(raw + b"more") == value

    check()


@each_case
def test_in_turns_the_same_is_read_and_written(case: Case) -> None:
    value = sample(case)
    data = case.encode(value)
    kind = case.message.kind
    read = getattr(case.module, f"decode_{kind}_in_turns", None)
    if read is not None:
        counts, found = _ended(read(memoryview(data), case.version))
        assert found == case.decode(data)
        assert sum(counts) == _elements(found)
        with pytest.raises(RemoteProtocolError) if data else nullcontext():
            _ended(read(memoryview(data[:-1]), case.version))
    write = getattr(case.module, f"encode_{kind}_in_turns", None)
    if write is not None:
        _, found = _ended(write(value, case.version))
        assert (b"".join(found) if isinstance(found, list) else bytes(found)) == data


def _ended(work: Generator[int, None, Any]) -> tuple[list[int], Any]:
    """Run the generator to its end; return the yielded values, and its result."""
    yielded: list[int] = []
    while True:
        try:
            yielded.append(next(work))
        except StopIteration as end:
            return yielded, end.value


def _elements(value: Any) -> int:
    """Return how many elements all arrays of a value have."""
    if isinstance(value, list):
        return len(value) + sum(map(_elements, value))
    if not is_dataclass(value):
        return 0
    return sum(_elements(getattr(value, each.name)) for each in fields(value))


def _kio_class(case: Case) -> Any:
    kind = case.message.kind
    name = f"kio.schema.{snake_case(case.schema.name)}.v{case.version}.{kind}"
    return getattr(importlib.import_module(name), case.message.name)


@each_case
def test_kio_reads_and_writes_the_same_bytes(case: Case) -> None:
    kio_class = _kio_class(case)
    read, write = entity_reader(kio_class), entity_writer(kio_class)

    @QUICK
    @given(values(case, for_kio=True))
    def check(value: Any) -> None:
        raw = case.encode(value)
        theirs, size = read(raw, 0)
        assert size == len(raw)
        assert_same(case, case.message.fields, value, theirs)
        buffer = io.BytesIO()
        write(buffer, theirs)
        assert case.decode(buffer.getvalue()) == _without_default_tags(
            case, case.message.fields, value
        )

    check()


def assert_same(case: Case, members: list[Field], ours: Any, theirs: Any) -> None:
    """Compare field by field in schema order; kio renames some (throttle_time)."""
    here = [each for each in members if present(each, case.version) and not is_own(each)]
    names = [each.name for each in fields(theirs)]
    assert len(here) == len(names)
    for each, name in zip(here, names, strict=True):
        assert each.name.rstrip("_").startswith(name.rstrip("_"))
        mine, other = getattr(ours, each.name), getattr(theirs, name)
        if mine is None and each.tag is not None and each.is_struct:
            continue  # left out; kio shows its default
        if each.is_struct and not each.is_array and mine is not None:
            assert_same(case, each.fields, mine, other)
        elif each.is_struct and mine is not None:
            assert len(mine) == len(other)
            for one, another in zip(mine, other, strict=True):
                assert_same(case, each.fields, one, another)
        else:
            assert _plain(other, each) == mine, each.name


def _plain(value: Any, each: Field) -> Any:
    if isinstance(value, tuple):
        return [_plain(item, each) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return (value - epoch) // datetime.timedelta(milliseconds=1)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if value is None and each.type == "uuid":
        return bytes(16)
    return -1 if value is None and each.type == "int64" else value


def _without_default_tags(case: Case, members: list[Field], value: Any) -> Any:
    """Drop tagged structs that equal their default: kio leaves those out when it writes."""
    for each in members:
        inner = getattr(value, each.name)
        if not each.is_struct or inner is None or not present(each, case.version):
            continue
        for item in inner if each.is_array else [inner]:
            _without_default_tags(case, each.fields, item)
        if each.tag is not None and not each.is_array and inner == type(inner)():
            setattr(value, each.name, None)
    return value


def sample(case: Case) -> Any:
    """Build a value in which everything is set and every array has two elements."""
    return _sample_struct(case, case.message.name, case.message.fields)


def _sample_struct(case: Case, name: str, members: list[Field]) -> Any:
    here = [each for each in members if present(each, case.version)]
    return getattr(case.module, name)(**{each.name: _sample_member(case, each) for each in here})


def _sample_member(case: Case, each: Field) -> Any:
    def one() -> Any:
        if each.is_struct:
            return _sample_struct(case, each.type, each.fields)
        texts = {"string": "täxt", "bytes": b"bytes", "records": b"r" * 130, "uuid": b"u" * 16}
        return texts.get(each.type, each.type == "bool" or 5)

    return [one(), one()] if each.is_array else one()


@each_case
def test_every_truncation_is_refused(case: Case) -> None:
    raw = case.encode(sample(case))
    assert case.decode(raw) == sample(case)
    for size in range(len(raw)):
        with pytest.raises(RemoteProtocolError):
            case.decode(raw[:size])


@each_case
def test_a_damaged_byte_is_refused_or_read(case: Case) -> None:
    raw = bytearray(case.encode(sample(case)))
    for position, good in enumerate(raw):
        for bad in (0x00, 0x7F, 0x80, 0xFF):
            raw[position] = bad
            _try(case, bytes(raw))
        raw[position] = good


@pytest.mark.parametrize("case", NEWEST, ids=str)
def test_random_bytes_are_refused_or_read(case: Case) -> None:
    @settings(QUICK, max_examples=30)
    @given(st.binary(max_size=60))
    def check(data: bytes) -> None:
        _try(case, data)

    check()


def _try(case: Case, data: bytes) -> None:
    """Decode; any exception but the promised one fails the test."""
    with suppress(RemoteProtocolError):
        case.decode(data)


@each_case
def test_unknown_versions_are_refused(case: Case) -> None:
    message = case.message
    for version in (-1, message.versions.low - 1, message.versions.high + 1, 32767):
        unknown = Case(case.module, case.schema, message, version)
        with pytest.raises(RemoteProtocolError, match="no version"):
            unknown.decode(b"")


def test_the_schema_uses_known_types_only() -> None:
    def visit(members: list[Field]) -> None:
        for each in members:
            assert each.type in FIXED or each.type in ("string", "bytes", "records") or each.fields
            visit(each.fields)

    for case in CASES:
        visit(case.message.fields)
