"""Reads ``protocol/schema/``, the facts of Kafka's messages in a notation of our own.

    api KEY NAME announced MIN
    request NAME VERSIONS flexible VERSIONS [unstable VERSION]
      FIELD TYPE VERSIONS [nullable VERSIONS] [default VALUE] [tag NUMBER VERSIONS] [ignorable]
        FIELD ...                                (the fields of a struct stand below it, indented)

VERSIONS is ``3``, ``3-5``, ``3+`` or ``none``.  TYPE is a primitive, ``[]`` and a primitive, or a
struct's name.  An unstable last version is not served.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field
from pathlib import Path

HIGHEST = 32767
FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
VARIABLE = {"string", "bytes", "records"}


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; empty when low > high."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text == "none":
            return NONE
        low, dash, high = text.removesuffix("+").partition("-")
        if text.endswith("+"):
            return cls(int(low), HIGHEST)
        return cls(int(low), int(high) if dash else int(low))

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))

    def __bool__(self) -> bool:
        return self.low <= self.high

    def covers(self, other: Versions) -> bool:
        return self.low <= other.low and other.high <= self.high


NONE = Versions(1, 0)


@dataclass(slots=True)
class Field:
    """One field of a message or struct; ``fields`` is not empty for structs and arrays of them."""

    kafka_name: str
    type: str
    versions: Versions
    is_array: bool
    nullable: Versions = NONE
    default: str | None = None
    tag: int | None = None
    ignorable: bool = False
    fields: list[Field] = field(default_factory=list)

    @property
    def name(self) -> str:
        name = snake_case(self.kafka_name)
        return name + "_" if keyword.iskeyword(name) else name

    @property
    def is_struct(self) -> bool:
        return self.type not in FIXED and self.type not in VARIABLE

    @property
    def carries_records(self) -> bool:
        return self.type == "records" or any(child.carries_records for child in self.fields)


@dataclass(slots=True)
class Message:
    """A request, response or data structure with all its versions."""

    kind: str
    name: str
    versions: Versions
    flexible: Versions
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class SchemaFile:
    """One file: an API with its request and response, or one message outside any API."""

    name: str
    key: int | None = None
    announced_min: int = 0
    messages: list[Message] = field(default_factory=list)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def read_schema(path: Path) -> SchemaFile:
    """Parse one file and prepare it: drop unserved fields, and make struct names unique."""
    schema = SchemaFile(path.stem)
    levels: list[list[Field]] = []
    for line in path.read_text().splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        if depth > 0:
            del levels[depth:]
            parsed = _parse_field(words)
            levels[-1].append(parsed)
            levels.append(parsed.fields)
        elif words[0] == "api":
            schema.key, schema.announced_min = int(words[1]), int(words[4])
        else:
            schema.messages.append(_parse_message(words))
            levels = [schema.messages[-1].fields]
    _prepare(schema)
    return schema


def _parse_message(words: list[str]) -> Message:
    versions = Versions.parse(words[2])
    if "unstable" in words:
        versions = Versions(versions.low, int(words[words.index("unstable") + 1]) - 1)
    return Message(words[0], words[1], versions, Versions.parse(words[4]))


def _parse_field(words: list[str]) -> Field:
    name, kind, versions, *rest = words
    parsed = Field(name, kind.removeprefix("[]"), Versions.parse(versions), kind.startswith("[]"))
    while rest:
        word = rest.pop(0)
        if word == "nullable":
            parsed.nullable = Versions.parse(rest.pop(0))
        elif word == "default":
            parsed.default = rest.pop(0)
        elif word == "tag":
            parsed.tag = int(rest.pop(0))
            if not Versions.parse(rest.pop(0)).covers(parsed.versions):
                raise ValueError(f"{name} is tagged in some of its versions only")
        elif word == "ignorable":
            parsed.ignorable = True
        elif word == "flexible":
            rest.pop(0)  # only the client id of the request header; see headers.py
        else:
            raise ValueError(f"unknown word {word!r} in field {name}")
    return parsed


def _prepare(schema: SchemaFile) -> None:
    # A request's range is what the broker serves; its response has the same range.
    served = schema.messages[0].versions
    used: list[set[str]] = []
    for message in schema.messages:
        message.versions = served
        _clip(message.fields, served)
        used.append(_struct_names(message.fields))
    shared = used[0].intersection(*used[1:]) if len(used) > 1 else set[str]()
    for message in schema.messages:
        _rename(message.fields, {name: message.name + name for name in shared})


def _clip(fields: list[Field], served: Versions) -> None:
    fields[:] = [each for each in fields if each.versions & served]
    for each in fields:
        each.versions &= served
        _clip(each.fields, each.versions)


def _struct_names(fields: list[Field]) -> set[str]:
    names = {each.type for each in fields if each.is_struct}
    return names.union(*(_struct_names(each.fields) for each in fields))


def _rename(fields: list[Field], names: dict[str, str]) -> None:
    for each in fields:
        each.type = names.get(each.type, each.type)
        _rename(each.fields, names)
