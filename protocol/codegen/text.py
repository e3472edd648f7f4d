"""Helpers of the emitters of readers and writers: lines, regimes, conditions, literals."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .schema import FIXED, Field, Message, Versions, snake_case

# Names that generated functions use themselves, or as builtins; a field of that name gets a suffix.
_TAKEN = {
    *("data", "position", "version", "length", "count", "marker", "raw", "out", "parts", "body"),
    *("tag", "tags", "tag_count", "end", "str", "bytes", "list", "len", "range"),
}


@dataclass(frozen=True, slots=True)
class Regime:
    """The versions of a message that are written in one style: classic or flexible."""

    versions: Versions
    flexible: bool

    @property
    def suffix(self) -> str:
        return "flexible" if self.flexible else "classic"

    def within(self, versions: Versions) -> Regime:
        """Return the same style for the versions that use a struct."""
        return Regime(self.versions & versions, self.flexible)

    def condition(self, versions: Versions) -> str | None:
        """Return the test for versions, within this regime; None if it always holds."""
        low, high = self.versions.low, self.versions.high
        if versions.covers(self.versions):
            return None
        if versions.high >= high:
            return f"version >= {versions.low}"
        if versions.low <= low:
            return f"version <= {versions.high}"
        return f"{versions.low} <= version <= {versions.high}"


def regimes(message: Message) -> list[Regime]:
    """Return the styles of a message, classic first."""
    classic = message.versions & Versions(0, message.flexible.low - 1)
    if not message.flexible:
        classic = message.versions
    flexible = message.versions & message.flexible
    styles = [Regime(classic, flexible=False), Regime(flexible, flexible=True)]
    return [each for each in styles if each.versions]


@dataclass(slots=True)
class Lines:
    """Indented lines of a function body, and the run of fixed fields not yet emitted.

    A run holds (struct format, name or expression) pairs; one Struct call takes them all.
    """

    lines: list[str] = field(default_factory=list)
    run: list[tuple[str, str]] = field(default_factory=list)
    depth: int = 1

    @property
    def yields(self) -> bool:
        """Whether the function is a generator already."""
        return any("yield" in line.split() for line in self.lines)

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        self.add(head)
        self.depth += 1
        yield
        self.depth -= 1

    def take_run(self) -> tuple[str, list[str]]:
        """Empty the run; return its format and its names."""
        formats = "".join(each for each, _ in self.run)
        names = [name for _, name in self.run]
        self.run.clear()
        return formats, names


def struct_name(direction: str, formats: str) -> str:
    """Return the name of a module's Struct method: _pack_ihq for ">ihq"."""
    return f"_{direction}_" + formats.replace("16s", "u").replace("?", "o")


def local(each: Field) -> str:
    return each.name + "_value" if each.name in _TAKEN else each.name


def function_name(direction: str, struct: str, regime: Regime) -> str:
    return f"_{direction}_{snake_case(struct)}_{regime.suffix}"


def optional_struct(each: Field) -> bool:
    """A tagged struct: None stands for "left out", so that callers build no default to compare."""
    return each.is_struct and not each.is_array and each.tag is not None


def may_be_null(each: Field) -> bool:
    if each.type == "records" or optional_struct(each):
        return True
    return bool(each.nullable & each.versions)


def type_name(each: Field, *, request: bool) -> str:
    name = _element_type(each.type, request=request)
    if each.is_array:
        name = f"list[{name}]"
    return name + " | None" if may_be_null(each) else name


def _element_type(kind: str, *, request: bool) -> str:
    if kind in ("bool", "float64"):
        return kind.removesuffix("64")
    if kind in ("string", "bytes", "uuid"):
        return "str" if kind == "string" else "bytes"
    if kind == "records":
        return "Buffer" if request else "Records"
    return "int" if kind in FIXED else kind


def default_literal(each: Field) -> str:
    """Return the field's default as Python text."""
    if each.default == "null" or each.type == "records" or optional_struct(each):
        return "None"
    if each.is_array:
        return "[]"
    if each.is_struct:
        return f"{each.type}()"
    if each.type == "bool":
        return str(each.default == "true")
    text = {"string": '""', "bytes": 'b""', "uuid": "ZERO_UUID", "float64": "0.0"}.get(each.type)
    return text or str(int(each.default or "0", 0))


def is_set(each: Field) -> str:
    """Return the test that item is not the field's default."""
    value = f"item.{each.name}"
    default = default_literal(each)
    if default == "None":
        return f"{value} is not None"
    if default == "[]" and not may_be_null(each):
        return value
    if default == "True":
        return f"not {value}"
    return value if default == "False" else f"{value} != {default}"


def smallest(fields: list[Field], regime: Regime) -> int:
    """Return the fewest bytes a struct of these fields takes, at least 1."""
    size = int(regime.flexible)
    for each in fields:
        if each.tag is None and each.versions.covers(regime.versions):
            size += smallest_value(each, regime)
    return max(size, 1)


def smallest_value(each: Field, regime: Regime) -> int:
    if each.is_array or each.type in ("bytes", "records"):
        return 1 if regime.flexible else 4
    if each.type == "string":
        return 1 if regime.flexible else 2
    if each.type in FIXED:
        return FIXED[each.type][1]
    return 1 if each.nullable else smallest(each.fields, regime.within(each.versions))
